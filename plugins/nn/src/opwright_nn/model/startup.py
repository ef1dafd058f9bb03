"""Startup: initializes all parameters and states of a Model, or only the missing values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

import opwright as ow
from opwright.errors import FeedError, ProgramError, ShapeError
from opwright.op import advise_shape, format_shape, shapes_match
from opwright.vocabulary import STEP
from opwright_nn import checks
from opwright_nn.initializer import Initializer
from opwright_nn.model.inference import persistable_names
from opwright_nn.parameters.deferred import Deferred, Shape, append_initializer


class Startup:
    """Infers shapes from the first batch and runs a startup program, completely or in part.

    Parameters
    ----------
    program, startup : Program
        The main program, and the program that initializes its persistable variables.
    scope : Scope
        The scope of their values.
    deferred : Deferred
        The variables without a shape yet.
    """

    def __init__(
        self, program: ow.Program, startup: ow.Program, scope: ow.Scope, deferred: Deferred
    ) -> None:
        self._program = program
        self._block = startup.global_block()
        self._scope = scope
        self._deferred = deferred
        self._all_requested = False
        self._has_changed = True
        self._network = ow.Network(self._block)

    def take_change(self) -> bool:
        """Return whether values were initialized or loaded since the last call."""
        changed, self._has_changed = self._has_changed, False
        return changed

    def request_all(self) -> None:
        """Request that the next `initialize` call with all shapes known sets all variables."""
        self._all_requested = True

    def note_loaded(self, shapes: Mapping[str, Shape]) -> None:
        """Record which variables were loaded; the next `initialize` sets only other variables."""
        self._all_requested = False
        self._has_changed = True
        for name, shape in shapes.items():
            variable = self._program.global_block().var(name)
            if variable.shape != shape:
                variable.shape = shape

    @property
    def requested(self) -> bool:
        """Whether the next `initialize` initializes everything."""
        return self._all_requested

    def settle(self, feeds: Mapping[str, Any], partly: bool = False) -> None:
        """Set unknown shapes of inputs to the shapes of `feeds`; see `Deferred`."""
        variables = self._program.global_block().vars
        shapes = {name: _batch_shape(data) for name, data in feeds.items()}
        for name, shape in shapes.items():
            _check_fits(name, variables[name].shape, shape)
        new = {name: shape for name, shape in shapes.items() if variables[name].shape is None}
        if new or len(self._deferred):
            self._settle(new)
        if len(self._deferred) and not partly:
            self._refine(shapes)
            self._settle({}, partly=False)

    def _settle(self, shapes: Mapping[str, Shape], partly: bool = True) -> None:
        self._deferred.settle(self._program, self._block.program, shapes, partly)

    def _refine(self, shapes: Mapping[str, Shape]) -> None:
        # A dimension declared as None may still change unless a parameter depends on it.
        variables = self._program.global_block().vars
        for name, shape in shapes.items():
            n_before, old = len(self._deferred), variables[name].shape
            if n_before and old != shape:
                self._settle({name: shape})
                if len(self._deferred) == n_before:
                    self._settle({name: old or ()})

    def initialize(self) -> None:
        """Initialize variables without a value, or everything if requested; a request is deferred
        until shapes are known.
        """
        self._adopt_parameters()
        if self._all_requested:
            if len(self._deferred):
                return
            self._check_shapes("Model.initialize_parameters", self._program)
            self._network.run(self._scope)
            self._restart_random_numbers()
            self._all_requested = False
            self._has_changed = True
            return
        for first, last in self._missing_ranges():
            self._has_changed = True
            self._network.run(self._scope, first, last)

    @ow.transaction()
    def _adopt_parameters(self) -> None:
        """Append initializers for parameters that users created without a layer."""
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
                    f"{who}: its shape must be known to initialize it, got {parameter!r}; give "
                    "create_parameter the complete shape"
                )
            append_initializer(startup, parameter, parameter.initializer, startup.next_stream())

    def check_initialized(self, who: str, program: ow.Program) -> None:
        """Raise unless the scope has the parameters and states of `program` with correct shapes."""
        for name in persistable_names(program):
            if name != STEP and not self._is_set(name):
                raise ProgramError(
                    f"{who}: all parameters must have values, got none for {name!r}; call "
                    "model.initialize_parameters(), load_parameter(folder) or run() first"
                )
        self._check_shapes(who, program)

    def _check_shapes(self, who: str, program: ow.Program) -> None:
        for parameter in program.parameters():
            value = self._scope.find_var(parameter.name)
            if value is None or not value.is_set or parameter.shape is None:
                continue
            shape = value.shape or ()
            if not shapes_match(parameter.shape, shape):
                raise ShapeError(
                    f"{who}: {parameter.name!r} must have shape {format_shape(parameter.shape)}, "
                    f"got {format_shape(shape)} in the scope, as from another model; rename the "
                    "layer, or give the model a separate scope"
                )

    def write(self, who: str, name: str, array: Any) -> None:
        """Set a persistable variable of the scope."""
        shape = self._program.global_block().var(name).shape or ()
        if not shapes_match(shape, np.shape(array)):
            raise ShapeError(
                f"{who}: {name!r} must have shape {format_shape(shape)}, "
                f"got {format_shape(np.shape(array))}; pass an array of its shape"
            )
        self._scope.var(name).set(array)
        self._has_changed = True

    def _is_set(self, name: str) -> bool:
        variable = self._scope.find_var(name)
        return variable is not None and variable.is_set

    def _missing_ranges(self) -> Iterable[tuple[int, int]]:
        # Adjacent operators run as one plan; usually either no value is missing, or all are.
        # Non-persistable variables are written for the next operator.
        ranges: list[tuple[int, int]] = []
        begin = 0
        for index, op in enumerate(self._block.ops):
            kept = [name for name in op.output_names() if self._block.var(name).persistable]
            if not kept:
                continue
            if not all(self._is_set(name) for name in kept):
                if ranges and ranges[-1][1] == begin - 1:
                    ranges[-1] = (ranges[-1][0], index)
                else:
                    ranges.append((begin, index))
            begin = index + 1
        return ranges

    def _restart_random_numbers(self) -> None:
        step = self._scope.find_var(STEP)
        if step is not None and step.is_set:
            step.set(np.zeros(1, np.int64))


def _check_fits(name: str, declared: Shape | None, shape: Shape) -> None:
    if declared is not None and not shapes_match(declared, shape):
        raise FeedError(
            f"feed {name!r}: must have shape {format_shape(declared)}, got {format_shape(shape)}; "
            f"{advise_shape(name, declared, shape)}"
        )


def _batch_shape(data: Any) -> Shape:
    shape = tuple(data.shape) if hasattr(data, "shape") else np.shape(data)
    return (-1, *shape[1:]) if shape else ()
