"""Finds operators that read a variable before it is written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from opwright.errors import FeedError, ProgramError

if TYPE_CHECKING:
    from opwright.program.block import Block
    from opwright.program.operator import Operator
    from opwright.program.variable import Variable


def check_reads(block: Block, feeds: Iterable[str] | None, operators: Sequence[Operator]) -> None:
    """See `Block.check_reads`."""
    fed = None if feeds is None else frozenset(feeds)
    _check_block(block, fed, operators, set() if fed is None else set(fed))


def _check_block(
    block: Block, feeds: frozenset[str] | None, operators: Sequence[Operator], ready: set[str]
) -> None:
    for index, op in enumerate(operators):
        for slot, names in op.inputs.items():
            for name in names:
                if name not in ready:
                    where = f"{op.type} (operator {index} of block {block.idx}): {slot}"
                    _check_given(block, feeds, where, name)
                    ready.add(name)
        for body_index in op.block_attrs().values():
            body = block.program.block(body_index)
            # What a body writes is not visible outside; what it captures is an input of `op`.
            _check_block(body, feeds, body.ops, set(op.input_names()) | _carried(op))
        ready.update(op.output_names())


def _carried(op: Operator) -> set[str]:
    """Return the variables of a loop's body that are written before each turn."""
    control = op.definition.control
    bodies = control.bodies(op.attrs) if control is not None else ()
    return {name for body in bodies for name in body.entering}


def _check_given(block: Block, feeds: frozenset[str] | None, where: str, name: str) -> None:
    variable = block.find_var(name)
    if variable is None:
        raise ProgramError(f"{where} reads {name!r}, which is no variable of the block")
    if variable.persistable or (variable.is_data and feeds is None):
        return
    if variable.is_data:
        raise FeedError(
            f"{where} reads the data variable {name!r}, which is not fed; add it to feed"
        )
    raise ProgramError(
        f"{where} reads {name!r} before it is written{_writer(variable)}; "
        "feed it, make it persistable, or append the operator that writes it first"
    )


def _writer(variable: Variable) -> str:
    for index, op in enumerate(variable.block.ops):
        if variable.name in op.output_names():
            return f", got its first write by {op.type} (operator {index})"
    return ", got no operator that writes it"
