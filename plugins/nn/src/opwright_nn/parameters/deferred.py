"""Parameter shapes deferred until the first batch, like PyTorch's lazy modules.

Layers and optimizers within a `deferred_guard` (a `Model` has one) may create persistable variables
of unknown shape, each with a rule that returns the shape once the shapes of the inputs are known.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import opwright as ow
from opwright.errors import ShapeError
from opwright.op import format_shape
from opwright.plugin import record_undo
from opwright_nn.initializer import Initializer

Shape = tuple[int, ...]
ShapeRule = Callable[[], Shape]
"""Returns the shape of a variable, with -1 for each unknown dimension.

A module-level function or a `functools.partial` of one, so models can be pickled.
"""


class DeferredVariable(NamedTuple):
    """A persistable variable whose shape is not known yet, with its initializer."""

    variable: ow.Variable
    rule: ShapeRule
    initializer: Initializer
    stream: int

    def append(self, startup: ow.Program) -> None:
        """Append the initializer to a startup program."""
        append_initializer(startup, self.variable, self.initializer, self.stream)


def append_initializer(
    startup: ow.Program, variable: ow.Variable, initializer: Initializer, stream: int
) -> None:
    """Append the initializer of a variable of known shape to a startup program."""
    block = startup.global_block()
    twin = block.create_var(variable.name, variable.shape, variable.dtype, persistable=True)
    initializer.append(block, twin, stream)


class Deferred:
    """The variables of one program whose shapes are unknown before the first batch."""

    def __init__(self) -> None:
        self._variables: list[DeferredVariable] = []

    def __len__(self) -> int:
        return len(self._variables)

    def names(self) -> set[str]:
        """Return the names of the variables."""
        return {item.variable.name for item in self._variables}

    def add(self, item: DeferredVariable) -> None:
        """Add a variable; rules are called in this order."""
        self._variables.append(item)
        record_undo(self._variables.pop)

    def settle(
        self,
        program: ow.Program,
        startup: ow.Program,
        inputs: Mapping[str, Shape],
        partly: bool = False,
    ) -> None:
        """Set the shapes of variables and append their initializers; on an error change nothing.

        Parameters
        ----------
        program : Program
            The program of the variables.
        startup : Program
            The program that gets the initializers, in the order of `add`.
        inputs : mapping of str to shape
            The shapes of inputs that are known now.
        partly : bool
            Whether variables may remain without a shape.

        Raises
        ------
        ShapeError
            A shape is still unknown, or does not fit an operator.
        """
        with ow.transaction():
            for name, shape in inputs.items():
                program.global_block().var(name).shape = shape
            remaining = self._infer(program, partly)
            remaining_ids = {id(item) for item in remaining}
            for item in self._variables:
                if id(item) not in remaining_ids:
                    item.append(startup)
            record_undo(setattr, self, "_variables", self._variables)
            self._variables = remaining

    def _infer(self, program: ow.Program, partly: bool) -> list[DeferredVariable]:
        # A parameter of a layer can depend on the output of another layer. Most programs need one
        # round, and no program needs more rounds than it has layers.
        remaining = list(self._variables)
        program.infer_shapes()
        while remaining:
            unknown = []
            for item in remaining:
                item.variable.shape = shape = item.rule()
                if -1 in shape:
                    unknown.append(item)
            if len(unknown) == len(remaining) and not partly:
                first = unknown[0].variable
                raise ShapeError(
                    f"{first.name}: its shape follows from the inputs of its layer, "
                    f"got {format_shape(first.shape or ())}; provide the shapes of "
                    "all inputs: initialize_parameters(img=images)"
                )
            if len(unknown) == len(remaining):
                break
            remaining = unknown
            program.infer_shapes()
        return remaining


_DEFERRED: contextvars.ContextVar[Deferred | None] = contextvars.ContextVar(
    "opwright_nn_deferred", default=None
)


@contextlib.contextmanager
def deferred_guard(deferred: Deferred) -> Iterator[Deferred]:
    """Allow layers to create parameters without a shape while the context is open."""
    token = _DEFERRED.set(deferred)
    try:
        yield deferred
    finally:
        _DEFERRED.reset(token)


def find_deferred() -> Deferred | None:
    """Return the variables of the innermost guard, or None outside any guard."""
    return _DEFERRED.get()
