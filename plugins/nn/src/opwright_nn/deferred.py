"""Variables whose shapes wait: nobody said how wide an input is, the first batch tells.

Layers and optimizers within a `deferred_guard` (a `Model` has one) may make persistable variables
of unknown shape, each with a rule that gives the shape once the inputs are known.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import opwright as ow
from opwright.errors import ShapeError
from opwright.op import format_shape
from opwright.plugin import record_undo as record

from .initializer import Initializer

Shape = tuple[int, ...]
ShapeRule = Callable[[], Shape]
"""Returns the shape of a variable, with -1 for each dim that cannot be told yet.

A function of a module or a `functools.partial` of one: a `Model` that waits may be pickled.
"""


class Waiting(NamedTuple):
    """A persistable variable with what is needed to fill it."""

    variable: ow.Variable
    rule: ShapeRule
    initializer: Initializer
    stream: int

    def append(self, startup: ow.Program) -> None:
        """Append what fills the variable to a startup program."""
        append_filler(startup, self.variable, self.initializer, self.stream)


def append_filler(
    startup: ow.Program, variable: ow.Variable, initializer: Initializer, stream: int
) -> None:
    """Append what fills a variable of known shape to a startup program."""
    block = startup.global_block()
    twin = block.create_var(variable.name, variable.shape, variable.dtype, persistable=True)
    initializer.append(block, twin, stream)


class Deferred:
    """The variables of one program whose shapes wait for the first batch."""

    def __init__(self) -> None:
        self._waiting: list[Waiting] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def names(self) -> set[str]:
        """Return the names of the variables that wait."""
        return {waiting.variable.name for waiting in self._waiting}

    def add(self, waiting: Waiting) -> None:
        """Add a variable; rules are asked in this order."""
        self._waiting.append(waiting)
        record(self._waiting.pop)

    def settle(
        self,
        program: ow.Program,
        startup: ow.Program,
        inputs: Mapping[str, Shape],
        partly: bool = False,
    ) -> None:
        """Give variables their shapes and append what fills them; on an error change nothing.

        Parameters
        ----------
        program : Program
            Gets the shapes.
        startup : Program
            Gets the initializers, in the order of `add`.
        inputs : mapping of str to shape
            What became known of variables that are fed.
        partly : bool
            Whether variables may go on waiting.

        Raises
        ------
        ShapeError
            A shape cannot be told even now, or does not fit an operator.
        """
        with ow.transaction():
            for name, shape in inputs.items():
                program.global_block().var(name).shape = shape
            left = self._infer(program, partly)
            kept = {id(waiting) for waiting in left}
            for waiting in self._waiting:
                if id(waiting) not in kept:
                    waiting.append(startup)
            record(setattr, self, "_waiting", self._waiting)
            self._waiting = left

    def _infer(self, program: ow.Program, partly: bool) -> list[Waiting]:
        # One layer's parameter can hang on another layer's output: most programs need one round,
        # none more rounds than it has layers.
        left = list(self._waiting)
        program.infer_shapes()
        while left:
            stuck = []
            for waiting in left:
                waiting.variable.shape = shape = waiting.rule()
                if -1 in shape:
                    stuck.append(waiting)
            if len(stuck) == len(left) and not partly:
                first = stuck[0].variable
                raise ShapeError(
                    f"{first.name}: its shape follows from the inputs of its layer, "
                    f"got {format_shape(first.shape or ())}; tell the shapes of all inputs: "
                    "initialize_parameters(img=images)"
                )
            if len(stuck) == len(left):
                break
            left = stuck
            program.infer_shapes()
        return left


_DEFERRED: contextvars.ContextVar[Deferred | None] = contextvars.ContextVar(
    "opwright_nn_deferred", default=None
)


@contextlib.contextmanager
def deferred_guard(deferred: Deferred) -> Iterator[Deferred]:
    """Within this, layers may make parameters whose shapes are not known yet."""
    token = _DEFERRED.set(deferred)
    try:
        yield deferred
    finally:
        _DEFERRED.reset(token)


def find_deferred() -> Deferred | None:
    """Return what the innermost guard holds, None outside of any."""
    return _DEFERRED.get()
