"""find_learning_rate: tries increasing learning rates on a copy of a model."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from opwright.errors import AttributeValueError, ProgramError
from opwright_nn import arguments, checks
from opwright_nn.model import Model
from opwright_nn.model.feeds import convert_named
from opwright_nn.training.preparation import feed_names
from opwright_nn.training.source import Data, Feeds, Source, make_source

_WHO: Final = "find_learning_rate"
_MEMORY: Final = 0.9
_DIVERGED: Final = 4.0
"""The search ends when the loss exceeds the lowest loss by this factor."""


@arguments.suggest
class RateSearch(NamedTuple):
    """The measurements of `find_learning_rate`.

    Attributes
    ----------
    best : float
        A tenth of the rate with the lowest loss: there the loss falls fast without diverging.
    rates : list of float
        The rate of each step.
    losses : list of float
        The smoothed loss of each step.
    """

    best: float
    rates: list[float]
    losses: list[float]

    def __repr__(self) -> str:
        return f"RateSearch(best={self.best:.2g}, of {len(self.rates)} steps)"


@arguments.suggest
def find_learning_rate(
    model: Model,
    data: Data,
    *,
    batch_size: int | None = None,
    seed: int | None = None,
    lowest: float = 1e-6,
    highest: float = 10.0,
    steps: int = 100,
) -> RateSearch:
    """Train a copy of a model with increasing learning rates; return a suggestion.

    ::

        search = nn.find_learning_rate(model, (x, y))
        model.learning_rate = search.best

    The model does not change. The search ends when the loss is not finite, or exceeds four times
    the lowest loss. Smith, Cyclical Learning Rates for Training Neural Networks, 2017, section 3.3.

    Parameters
    ----------
    model : Model
        A model with a loss, and with an optimizer whose rate is a number.
    data, batch_size, seed
        As for `train`; data is repeated if it has fewer batches than steps.
    lowest, highest : float, > 0
        The first and the last rate; the rates between form a geometric sequence.
    steps : int, at least 10
        The number of rates tried.

    Returns
    -------
    RateSearch

    Raises
    ------
    ProgramError
        The model has no optimizer, or its optimizer has a schedule.
    AttributeValueError
        The loss is not finite in the first step, or an argument is out of range.
    """
    checks.check_instance(_WHO, "model", model, Model, required=True)
    first = checks.check_float(_WHO, "lowest", lowest, above=0.0)
    last = checks.check_float(_WHO, "highest", highest, above=first)
    count = checks.check_int(_WHO, "steps", steps, at_least=10)
    if model.optimizer is None or model.optimizer.schedule is not None:
        got = "none" if model.optimizer is None else "one with a schedule"
        raise ProgramError(
            f"{_WHO}: the model must have an optimizer whose rate is a number, got {got}; call "
            "model.minimize(loss, nn.optimizer.Adam(1e-3)) before"
        )
    options = {"size": batch_size, "seed": seed}
    convert = partial(convert_named, model.program, model._cast)
    source = make_source(_WHO, data, feed_names(model), count, options, convert)
    return _search(copy.deepcopy(model), source, np.geomspace(first, last, count).tolist())


def _search(model: Model, source: Source, rates: list[float]) -> RateSearch:
    step = model.compile_step(source.example())
    losses: list[float] = []
    average = 0.0
    for rate, feeds in zip(rates, _repeat(source), strict=False):
        model.set_learning_rate(rate)
        loss = float(step(**feeds)[0])
        average = _MEMORY * average + (1 - _MEMORY) * loss
        smooth = average / (1 - _MEMORY ** (len(losses) + 1))
        if not math.isfinite(loss) or (losses and smooth > _DIVERGED * max(min(losses), 1e-12)):
            break
        losses.append(smooth)
    if not losses:
        raise AttributeValueError(
            f"{_WHO}: the loss must be a number at the rate {rates[0]:g}, got nan or infinity; "
            "look for its cause with nn.find_nan, or begin with a lower rate"
        )
    best = rates[int(np.argmin(losses))] / 10
    return RateSearch(best, rates[: len(losses)], losses)


def _repeat(source: Source) -> Iterator[Feeds]:
    while True:
        yield from source.epoch(0)
