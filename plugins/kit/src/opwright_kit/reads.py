"""Finds operators of a block that read a variable before it is written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from opwright import Block, Operator, Variable
from opwright.errors import FeedError, ProgramError


def check_reads(
    block: Block,
    feeds: Iterable[str] | None = None,
    operators: Sequence[Operator] | None = None,
) -> None:
    """Raise for an operator that reads a variable before it is written.

    A network reports such an operator when it is lowered. This function finds it in a program that
    has only been built, such as a program written by a layer or a gradient rule.

    Parameters
    ----------
    block : Block
        The block that will run.
    feeds : iterable of str, optional
        The data variables that are fed; by default all of them.
    operators : sequence of Operator, optional
        The operators of this block that will run; by default all of them.

    Raises
    ------
    ProgramError
        The message names the operator, its index and the variable.
    FeedError
        If the variable is data that is not fed.
    """
    fed = None if feeds is None else frozenset(feeds)
    _check_block(block, fed, block.ops if operators is None else operators, set(fed or ()))


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
            # Variables that a body writes are not visible outside; captured variables are inputs
            # of `op`.
            _check_block(body, feeds, body.ops, set(op.input_names()) | _carried(op))
        ready.update(op.output_names())


def _carried(op: Operator) -> set[str]:
    """Return the variables of a loop's body that are written before each iteration."""
    control = op.definition.control
    bodies = control.bodies(op.attrs) if control is not None else ()
    return {name for body in bodies for name in body.entering}


def _check_given(block: Block, feeds: frozenset[str] | None, where: str, name: str) -> None:
    variable = block.find_var(name)
    if variable is None:
        raise ProgramError(f"{where} reads {name!r}, which is not a variable of the block")
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
