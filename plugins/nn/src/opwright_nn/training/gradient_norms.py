"""GradientNorms: a callback that measures the gradients of each layer after each epoch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import opwright as ow
from opwright.errors import ProgramError
from opwright.vocabulary import GRAD_SUFFIX, STEP
from opwright_nn import arguments, fields
from opwright_nn.model.inference import input_names, trial_program
from opwright_nn.model.layer_groups import layer_of_parameter
from opwright_nn.training.callback import Callback
from opwright_nn.training.history import pack_records, unpack_records

if TYPE_CHECKING:
    from opwright_nn.training.training import Training


class GradientNorms(Callback):
    """Measure the gradient norm of each layer, after each epoch, on the first batch.

    The norm is the square root of the sum of squares over all trained parameters of the layer,
    before clipping. The measurement is a step without update, so training is bitwise identical
    without it.

    Attributes
    ----------
    records : list of dict
        One for each epoch: "epoch", and the norm by layer, such as "fc_0".
    """

    @arguments.suggest
    def __init__(self) -> None:
        self.records: list[dict[str, float]] = []
        self._step: _GradientStep | None = None

    def begin(self, training: Training) -> None:
        """Check that a Model is trained, because its program must be known."""
        if training.program is None:
            raise ProgramError(
                "GradientNorms: the training must have a Model, got a step, whose gradients "
                "are not known; pass the Model to train"
            )
        self._step = None

    def after_epoch(self, training: Training, record: Mapping[str, float]) -> None:
        """Measure."""
        program = training.program
        if program is None:
            return
        if self._step is None or self._step.generation != program.generation:
            self._step = _GradientStep(training, program)
        squares: dict[str, float] = {}
        for name, value in self._step.compute(training):
            layer = layer_of_parameter(name)
            square = float(np.sum(np.square(value.astype(np.float64))))
            squares[layer] = squares.get(layer, 0.0) + square
        norms = {layer: float(np.sqrt(square)) for layer, square in squares.items()}
        self.records.append({"epoch": record["epoch"], **norms})

    def state(self) -> dict[str, Any]:
        """Return the records."""
        return {"records": pack_records(self.records)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a state that `state` returned."""
        rules = {"records": unpack_records}
        self.records = fields.fields(rules)("GradientNorms", state)["records"]


class _GradientStep:
    """A step without update that returns gradients; compiled once per state of the program."""

    def __init__(self, training: Training, program: ow.Program) -> None:
        self.generation = program.generation
        block = program.global_block()
        grads = {p.name: f"{p.name}{GRAD_SUFFIX}" for p in program.parameters() if p.trainable}
        self._names = [name for name, grad in grads.items() if block.find_var(grad) is not None]
        fetches = [grads[name] for name in self._names]
        trial = trial_program(program, fetches)
        self._inputs = input_names(trial)
        network = ow.Network(trial.global_block())
        self._call = network.compile(
            feed=self._inputs, fetch=fetches, scope=training.scope, **training.run_options
        )

    def compute(self, training: Training) -> Iterator[tuple[str, Any]]:
        """Return parameters with gradients on the first batch, without changing the scope."""
        feeds = training.example_feeds()
        count = training.scope.find_var(STEP)
        before = None if count is None or not count.is_set else count.numpy()
        values = self._call(**{name: feeds[name] for name in self._inputs})
        if count is not None and before is not None:
            count.set(before)
        return zip(self._names, values, strict=True)
