"""Startup: which variables of a scope still need a first value, and how they get it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

import opwright as ow
from opwright.errors import FeedError, ProgramError, ShapeError
from opwright.op import format_shape, shapes_match
from opwright.vocabulary import STEP

from . import checks
from .deferred import Deferred, Shape, append_filler
from .inference import persistable_names
from .initializer import Initializer


class Startup:
    """Settles shapes and runs a startup program, all of it or what is missing.

    Parameters
    ----------
    program, startup : Program
        Main program and the one that fills its persistable variables.
    scope : Scope
        Where they are filled.
    deferred : Deferred
        The variables that wait for shapes.
    """

    def __init__(
        self, program: ow.Program, startup: ow.Program, scope: ow.Scope, deferred: Deferred
    ) -> None:
        self._program = program
        self._block = startup.global_block()
        self._scope = scope
        self._deferred = deferred
        self._all_requested = False
        self._network = ow.Network(self._block)

    def request_all(self) -> None:
        """Have the next `initialize` that finds all shapes settled fill everything anew."""
        self._all_requested = True

    def note_loaded(self, shapes: Mapping[str, Shape]) -> None:
        """Note what was written into the scope: the next `initialize` fills only the rest."""
        self._all_requested = False
        for name, shape in shapes.items():
            variable = self._program.global_block().var(name)
            if variable.shape != shape:
                variable.shape = shape

    @property
    def requested(self) -> bool:
        """Whether everything is to be filled anew."""
        return self._all_requested

    def settle(self, feeds: Mapping[str, Any], partly: bool = False) -> None:
        """Take the shapes of inputs from `feeds` where they are not known; see `Deferred`."""
        variables = self._program.global_block().vars
        shapes = {name: _batch_shape(data) for name, data in feeds.items()}
        for name, shape in shapes.items():
            _check_fits(name, variables[name].shape, shape)
        told = {name: shape for name, shape in shapes.items() if variables[name].shape is None}
        if told or len(self._deferred):
            self._settle(told)
        if len(self._deferred) and not partly:
            self._refine(shapes)
            self._settle({}, partly=False)

    def _settle(self, told: Mapping[str, Shape], partly: bool = True) -> None:
        self._deferred.settle(self._program, self._block.program, told, partly)

    def _refine(self, shapes: Mapping[str, Shape]) -> None:
        # A declared None beyond the batch may go on changing, unless a parameter hangs on it.
        variables = self._program.global_block().vars
        for name, shape in shapes.items():
            n_waiting, old = len(self._deferred), variables[name].shape
            if n_waiting and old != shape:
                self._settle({name: shape})
                if len(self._deferred) == n_waiting:
                    self._settle({name: old or ()})

    def initialize(self) -> None:
        """Fill what was requested, or what is missing; nothing while a request waits for shapes."""
        self._adopt_parameters()
        if self._all_requested:
            if len(self._deferred):
                return
            self._network.run(self._scope)
            self._restart_random_numbers()
            self._all_requested = False
            return
        for first, last in self._missing_ranges():
            self._network.run(self._scope, first, last)

    @ow.transaction()
    def _adopt_parameters(self) -> None:
        """Append what fills the parameters that no layer made, but that name an initializer."""
        startup = self._block.program
        known = {*self._block.vars, *self._deferred.names()}
        for parameter in self._program.parameters():
            if parameter.initializer is None or parameter.name in known:
                continue
            who = f"parameter {parameter.name!r}"
            checks.check_instance(who, "initializer", parameter.initializer, Initializer)
            if parameter.shape is None or -1 in parameter.shape:
                if self._is_set(parameter.name):
                    continue
                raise ShapeError(
                    f"{who}: its shape must be known to fill it, got {parameter!r}; give "
                    "create_parameter the whole shape"
                )
            append_filler(startup, parameter, parameter.initializer, startup.next_stream())

    def check_initialized(self, who: str, program: ow.Program) -> None:
        """Raise ProgramError unless the scope holds all that `program` reads and keeps."""
        for name in persistable_names(program):
            if name != STEP and not self._is_set(name):
                raise ProgramError(
                    f"{who}: all parameters must have values, got none for {name!r}; call "
                    "model.initialize_parameters(), load_parameter(folder) or run() first"
                )

    def write(self, who: str, name: str, array: Any) -> None:
        """Set a persistable variable of the scope."""
        wanted = self._program.global_block().var(name).shape or ()
        if not shapes_match(wanted, np.shape(array)):
            raise ShapeError(
                f"{who}: {name!r} must have shape {format_shape(wanted)}, "
                f"got {format_shape(np.shape(array))}; give an array of its shape"
            )
        self._scope.var(name).set(array)

    def _is_set(self, name: str) -> bool:
        found = self._scope.find_var(name)
        return found is not None and found.is_set

    def _missing_ranges(self) -> Iterable[tuple[int, int]]:
        # Neighbours run as one plan; mostly nothing is missing, or everything.
        ranges: list[tuple[int, int]] = []
        for index, op in enumerate(self._block.ops):
            if all(self._is_set(name) for name in op.output_names()):
                continue
            if ranges and ranges[-1][1] == index - 1:
                ranges[-1] = (ranges[-1][0], index)
            else:
                ranges.append((index, index))
        return ranges

    def _restart_random_numbers(self) -> None:
        step = self._scope.find_var(STEP)
        if step is not None and step.is_set:
            step.set(np.zeros(1, np.int64))


def _check_fits(name: str, wanted: Shape | None, shape: Shape) -> None:
    if wanted is not None and not shapes_match(wanted, shape):
        raise FeedError(
            f"feed {name!r}: must have shape {format_shape(wanted)}, got {format_shape(shape)}; "
            "give arrays of the declared shape, or declare another"
        )


def _batch_shape(data: Any) -> Shape:
    shape = tuple(data.shape) if hasattr(data, "shape") else np.shape(data)
    return (-1, *shape[1:]) if shape else ()
