"""Copies and prunes blocks, and infers their shapes again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from opwright.errors import OpwrightError
from opwright.program.block import Block
from opwright.program.building import infer_outputs
from opwright.program.operator import Operator

if TYPE_CHECKING:
    from opwright.program.program import Program


def copy_block(block: Block, program: Program) -> Block:
    """Return a copy of a block that belongs to `program`, which does not list it yet."""
    twin = Block(program, block.idx, block.parent_idx)
    twin.vars = {name: variable.copy_to(twin) for name, variable in block.vars.items()}
    twin.ops = [_copy_operator(op, twin) for op in block.ops]
    return twin


def _copy_operator(op: Operator, block: Block) -> Operator:
    inputs, outputs, attrs = dict(op.inputs), dict(op.outputs), dict(op.attrs)
    return Operator.make(block, op.definition, inputs, outputs, attrs)


def clone_operator(op: Operator, block: Block) -> Operator:
    """Return a copy of an operator, with copies of its blocks, that `block` does not list yet."""
    twin = _copy_operator(op, block)
    for attr, body in op.block_attrs().items():
        twin.attrs[attr] = clone_block(block, body).idx
    return twin


def clone_block(parent: Block, index: int) -> Block:
    """Return a copy of a block, and of those within it, as a block within `parent`."""
    program = parent.program
    source = program.block(index)
    twin = program.add_block(parent.idx)
    twin.vars = {name: variable.copy_to(twin) for name, variable in source.vars.items()}
    twin.ops = [clone_operator(op, twin) for op in source.ops]
    return twin


def clear_block(block: Block) -> None:
    """Remove the operators and variables of a block, and of those within it."""
    for part in _live_blocks(block):
        part.replace_ops([])
        part.replace_vars({})


def infer_block(block: Block) -> None:
    """Infer the metas of all outputs in a block, and in the blocks within it, again.

    Persistables, and variables that no operator writes, keep their metas.
    """
    for index, op in enumerate(block.ops):
        for body in op.block_attrs().values():
            infer_block(block.program.block(body))
        inputs = {slot: [block.var(name) for name in names] for slot, names in op.inputs.items()}
        try:
            metas = infer_outputs(block, op.definition, inputs, op.attrs, op.outputs)
        except OpwrightError as error:
            error.add_note(f"in operator {index} of block {block.idx}: {op!r}")
            raise
        for slot, names in op.outputs.items():
            for name, (shape, dtype) in zip(names, metas[slot]):
                variable = block.vars.get(name)
                if variable is not None and not variable.persistable:
                    block.define_var(name, shape, dtype)


def prune_block(block: Block, needed: set[str]) -> None:
    """Keep the operators of a block that write what is needed at its end."""
    kept = []
    for op in reversed(block.ops):
        outputs = set(op.output_names())
        if not outputs & needed:
            continue
        needed -= outputs
        _prune_bodies(op, block)
        needed.update(op.input_names())
        kept.append(op)
    block.replace_ops(kept[::-1])


def _prune_bodies(op: Operator, block: Block) -> None:
    """Prune the bodies of an operator, and what it captures, to what the results need."""
    control = op.definition.control
    if control is None:
        return
    captured: set[str] = set()
    for index, _, leaving in control.bodies(op.attrs):
        body = block.program.block(index)
        prune_block(body, set(leaving))
        captured.update(body.captured(), (name for name in leaving if name not in body.vars))
    kept = tuple(name for name in op.input(control.captured) if name in captured)
    if kept:
        op.inputs[control.captured] = kept
    else:
        op.inputs.pop(control.captured, None)


def drop_unused_vars(block: Block, kept: Iterable[str]) -> None:
    """Remove the variables of a block, and of those within it, that no operator there uses."""
    live = _live_blocks(block)
    used = set(kept)
    for part in live:
        for op in part.ops:
            used.update(op.input_names())
            used.update(op.output_names())
            control = op.definition.control
            for body in control.bodies(op.attrs) if control is not None else ():
                used.update(body.entering, body.leaving)
    for part in live:
        part.replace_vars({name: var for name, var in part.vars.items() if name in used})


def _live_blocks(block: Block) -> list[Block]:
    """Return a block and those within it that an operator has, outer ones first."""
    live = [block]
    for op in block.ops:
        for body in op.block_attrs().values():
            live.extend(_live_blocks(block.program.block(body)))
    return live


def renumbered_blocks(program: Program) -> list[Block]:
    """Return the blocks that an operator still has, with indices without gaps."""
    live = sorted(_live_blocks(program.global_block()), key=lambda block: block.idx)
    numbers = {block.idx: number for number, block in enumerate(live)}
    for block in live:
        for op in block.ops:
            for attr, body in op.block_attrs().items():
                op.attrs[attr] = numbers[body]
    for number, block in enumerate(live):
        block.idx = number
        if block.parent_idx is not None:
            block.parent_idx = numbers[block.parent_idx]
    return live
