"""Evaluation: losses and metrics of a model on held-out data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import opwright as ow
from opwright.errors import AttributeTypeError
from opwright_nn import checks
from opwright_nn.metrics import Metric
from opwright_nn.model import Model
from opwright_nn.model.inference import input_names
from opwright_nn.model.predictor import Predictor
from opwright_nn.training.source import Source
from opwright_nn.training.totals import Totals

Metrics = Mapping[str, Metric | ow.Variable | str]


class Evaluation:
    """Computes scalar metrics of a model in inference mode: no dropout, no updates.

    Parameters
    ----------
    model : Model
        Its current parameters are read in each call.
    values : mapping of str to str
        Scalar variables, whose weighted means over batches are returned.
    metrics : mapping of str to Metric
        Metrics that accumulate.
    """

    def __init__(
        self, model: Model, values: Mapping[str, str], metrics: Mapping[str, Metric]
    ) -> None:
        self._values = dict(values)
        self._metrics = dict(metrics)
        program = model.program
        self._sources = {name: _names(metric, program) for name, metric in metrics.items()}
        fed = set(input_names(program))
        computed = [name for names in self._sources.values() for name in names if name not in fed]
        fetches = tuple(dict.fromkeys([*values.values(), *computed]))
        self._predictor = Predictor(program, fetches, model.scope, model._options)

    def __call__(self, source: Source) -> dict[str, float]:
        """Return the metrics over all batches of `source`, by name."""
        totals = Totals(list(self._values))
        for metric in self._metrics.values():
            metric.reset()
        for feeds in source.once():
            found = self._run(feeds)
            rows = source.count_rows(feeds)
            totals.add([[found[name] for name in self._values.values()]], [rows])
            for name, metric in self._metrics.items():
                arrays = [found[n] if n in found else feeds[n] for n in self._sources[name]]
                metric.update(*(np.asarray(array) for array in arrays))
        results = {name: float(metric.result()) for name, metric in self._metrics.items()}
        return {**totals.means(), **results}

    def _run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        predictor = self._predictor
        values = predictor({name: feeds[name] for name in predictor.inputs})
        return dict(zip(predictor.names, values, strict=True))


def split_metrics(
    program: ow.Program, metrics: Metrics | None
) -> tuple[dict[str, str], dict[str, Metric]]:
    """Return the user's metrics: variables by name, and metrics that accumulate."""
    if metrics is not None and not isinstance(metrics, Mapping):
        raise AttributeTypeError(
            f"train: metrics must map names to metrics, got {metrics!r}; write "
            "metrics={'accuracy': nn.metrics.Accuracy(scores, 'label')}"
        )
    values, objects = {}, {}
    for name, metric in (metrics or {}).items():
        checks.check_str("train", "names of metrics", name)
        if isinstance(metric, ow.Variable | str):
            values[name] = _get_name(metric, program)
        elif isinstance(metric, Metric):
            objects[name] = _check_variables(name, metric)
        else:
            raise AttributeTypeError(
                f"train: metrics[{name!r}] must be a Metric, a variable or its name, got "
                f"{metric!r} ({type(metric).__name__}); write nn.metrics.Accuracy(scores, 'label')"
            )
    return values, objects


def _check_variables(name: str, metric: Metric) -> Metric:
    if not metric.variables:
        raise AttributeTypeError(
            f"train: metrics[{name!r}] must name its inputs, got {metric!r} without any; "
            f"write nn.metrics.{type(metric).__name__}(scores, 'label'), for example"
        )
    return metric


def _names(metric: Metric, program: ow.Program) -> Sequence[str]:
    return [_get_name(variable, program) for variable in metric.variables]


def _get_name(variable: ow.Variable | str, program: ow.Program) -> str:
    name = variable if isinstance(variable, str) else variable.name
    return program.global_block().get_var(name, "train: metrics").name
