"""Prepares training: compiles the step, and continues from a checkpoint."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import opwright as ow
from opwright.errors import AttributeTypeError, AttributeValueError, ProgramError
from opwright_nn.checkpoint.saving import Checkpoint as Saved
from opwright_nn.model import Model
from opwright_nn.model.inference import input_names
from opwright_nn.parallel import Team, find_program_team
from opwright_nn.training.callback import Callback
from opwright_nn.training.checkpointing import Checkpoint
from opwright_nn.training.display import Display
from opwright_nn.training.evaluation import Evaluation, Metrics, split_metrics
from opwright_nn.training.source import Source
from opwright_nn.training.training import Trained, Training

Step = Callable[..., Any]


class Setup(NamedTuple):
    """The checked arguments of `train`, without the model."""

    source: Source
    validation: Source | None
    metrics: Metrics | None
    epochs: int
    callbacks: list[Callback]
    saver: Checkpoint | None
    display: Display
    team: Team | None

    def make(
        self,
        trained: Trained,
        evaluate: Callable[[], Mapping[str, float]] | None,
        columns: Iterable[str],
    ) -> Training:
        """Return the training of a step."""
        return Training(
            trained, self.source, self.epochs, self.callbacks, evaluate, columns, self.display
        )


def find_team(model: Model | Step, callbacks: Iterable[Callback]) -> Team | None:
    """Return the processes that train together, or None for a single process.

    The program of a step is known if a `Checkpoint` has it.
    """
    savers = [item for item in callbacks if isinstance(item, Checkpoint)]
    program = savers[0].find_program() if savers else None
    if isinstance(model, Model):
        program = model.program
    team = find_program_team("train", program)
    return None if team is None or team.size == 1 else team


def check_shared(source: Source, team: Team | None) -> None:
    """Raise AttributeValueError if processes would all train with the same rows."""
    if team is not None and source.is_shared is False:
        raise AttributeValueError(
            f"train: {team.size} processes that train together must share the batches, got "
            f"complete batches in each; write nn.batches(..., shard={team.group!r})"
        )


def feed_names(model: Model | Step) -> tuple[str, ...] | None:
    """Return the inputs of a model or step, in order, or None if unknown."""
    if isinstance(model, Model):
        inputs = set(input_names(model.program))
        return tuple([name for name in model.program.global_block().vars if name in inputs])
    if not callable(model):
        raise AttributeTypeError(
            f"train: model must be a Model or a step that can be called, got {model!r} "
            f"({type(model).__name__}); create a Model first"
        )
    names = getattr(model, "feed_names", None)
    if names is not None:
        return tuple(names)
    parameters = inspect.signature(model).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return tuple([parameter.name for parameter in parameters])


def prepare_model(model: Model, setup: Setup) -> Training:
    """Compile a model and return its training, continued if `setup` requests it."""
    fetches = model._fetches()
    if model._loss is None:
        raise ProgramError(
            "train: the model must have a loss, got none; call "
            "model.minimize(loss, optimizer) first"
        )
    values, metrics = split_metrics(model.program, setup.metrics)
    names = ("loss", *fetches[1:])
    held_out = {}
    if setup.validation is not None:
        held_out = {f"validation_{name}": var for name, var in zip(names, fetches, strict=True)}
    columns = [*names, *held_out, *values, *metrics]
    _check_distinct([*columns, "epoch", "steps", "learning_rate", "seconds", "samples_per_second"])
    example = setup.source.example()
    find_step = _ModelStep(model, example)
    trained = Trained(
        find_step,
        names,
        model.scope,
        model.program,
        model.optimizer,
        tuple(fetches),
        model.run_options(),
        setup.team,
    )
    evaluate = None
    if values or metrics or held_out:
        evaluation = Evaluation(model, {**held_out, **values}, metrics)
        evaluate = partial(evaluation, setup.validation or setup.source)
    training = setup.make(trained, evaluate, columns)
    saved = None if setup.saver is None else setup.saver.read(model.program)
    if saved is not None:
        _restore(training, saved)
        model._load_values(saved.saved, saved.values)
    find_step()
    return training


def prepare_step(step: Step, setup: Setup) -> Training:
    """Return the training of a step that was compiled elsewhere."""
    if setup.validation is not None or setup.metrics:
        raise AttributeValueError(
            "train: validation and metrics need a Model, whose program is evaluated without "
            "training, got a step; compute them in a callback"
        )
    scope = getattr(step, "scope", None)
    listed = _as_list(step)
    trained = Trained(lambda: listed, ("loss",), scope, team=setup.team)
    training = setup.make(trained, None, ["loss"])
    if setup.saver is not None:
        program = setup.saver.get_program(None)
        saved = setup.saver.read(program)
        if saved is not None:
            _restore(training, saved)
            (scope or ow.default_scope()).set_all(saved.values)
            program.seed = saved.saved.program.seed
    return training


def _restore(training: Training, saved: Saved) -> None:
    """Continue from a checkpoint; its variables are set last, when nothing can fail."""
    with saved.saved.reading_notes():
        training.restore(saved.state["training"])


class _ModelStep:
    """The step of a model, recompiled if the model has changed.

    Parameters
    ----------
    model : Model
    example : mapping of str to array
        A batch.
    """

    def __init__(self, model: Model, example: Mapping[str, Any]) -> None:
        self._model = model
        self._example = example
        self._generation = -1
        self._step: Step = model.run

    def __call__(self) -> Step:
        if self._generation != self._model.program.generation:
            self._step = self._model._compile_step("train", self._example)
            self._generation = self._model.program.generation
        return self._step


def _as_list(step: Step) -> Step:
    """Return a step that returns a list, even if the given step returns only the loss."""
    if isinstance(step, ow.runtime.CompiledNetwork) or hasattr(step, "feed_names"):
        return step

    def call(**feeds: Any) -> Any:
        values = step(**feeds)
        return values if isinstance(values, list | tuple) else [values]

    return call


def _check_distinct(columns: list[str]) -> None:
    for name in columns:
        if columns.count(name) > 1:
            raise AttributeValueError(
                f"train: metrics must have distinct names, got {name!r}, which is another "
                "column of the history; choose another name"
            )
