"""How layers, regularizers and optimizers append one operator and get its output."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ParamSpec, TypeVar

import opwright as ow
from opwright.errors import ProgramError

from .deferred import find_deferred

Params = ParamSpec("Params")
Result = TypeVar("Result")


def append(
    block: ow.Block,
    op_type: str,
    inputs: Mapping[str, Any],
    attrs: Mapping[str, Any] | None = None,
    *,
    slot: str = "out",
    name: str | None = None,
    prefix: str | None = None,
) -> ow.Variable:
    """Append an operator to `block` and return the variable in one of its output slots.

    Parameters
    ----------
    block : Block
        Where the operator goes; shapes are inferred and everything is checked by it.
    op_type : str
        The operator type.
    inputs : mapping of slot to Variable, name, list of these, or None
        None leaves an optional slot out.
    attrs : mapping, optional
        Attributes.
    slot : str
        The output that is returned; the others get names of their own.
    name : str, optional
        The name of that output; it must be new.
    prefix : str, optional
        Its name where `name` is not given and nobody has it, otherwise with a number behind; the
        operator type by default.
    """
    if name is not None and block.find_var(name) is not None:
        raise ProgramError(
            f"{op_type}: the name of an output must be new, got {name!r}, which exists; give the "
            "layer another name"
        )
    out = name or block.program.free_name(prefix or op_type)
    given = {key: value for key, value in inputs.items() if value is not None}
    op = block.append_op(op_type, inputs=given, outputs={slot: out}, attrs=dict(attrs or {}))
    return block.var(op.output(slot)[0])


@contextlib.contextmanager
def undo_on_error() -> Iterator[None]:
    """Take back, where an error passes, all that was added to the default programs within this.

    A layer makes parameters before the operator that may refuse them; whoever corrects the call
    must not find half a layer.
    """
    deferred = find_deferred()
    n_waiting = 0 if deferred is None else len(deferred)
    marks = [
        _Mark(program) for program in (ow.default_main_program(), ow.default_startup_program())
    ]
    try:
        yield
    except BaseException:
        for mark in marks:
            mark.undo()
        if deferred is not None:
            deferred.forget(n_waiting)
        raise


def atomic(function: Callable[Params, Result]) -> Callable[Params, Result]:
    """Make a function that builds do all or nothing, see `undo_on_error`."""

    @functools.wraps(function)
    def build(*args: Params.args, **kwargs: Params.kwargs) -> Result:
        with undo_on_error():
            return function(*args, **kwargs)

    return build


class _Mark:
    # Variables and operators are only ever added at the end: lengths are enough to go back to.
    def __init__(self, program: ow.Program) -> None:
        self._program = program
        self._current = program.current_block().idx
        self._lengths = [(len(block.vars), len(block.ops)) for block in program.blocks]

    def undo(self) -> None:
        while self._program.current_block().idx != self._current:
            self._program.rollback()
        del self._program.blocks[len(self._lengths) :]
        for block, (n_vars, n_ops) in zip(self._program.blocks, self._lengths, strict=True):
            del block.ops[n_ops:]
            while len(block.vars) > n_vars:
                block.vars.popitem()
        self._program.touch()
