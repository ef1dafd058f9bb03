"""Rewrites of blocks and whole programs: copy, prune to targets, infer all shapes anew."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from opwright.errors import OpwrightError
from opwright.program.block import Block
from opwright.program.building import infer_outputs
from opwright.program.operator import Operator
from opwright.program.variable import Variable

if TYPE_CHECKING:
    from opwright.program.program import Program


def copy_block(block: Block, program: Program) -> Block:
    """Return a block like `block` that belongs to `program`, without entering it there."""
    copied = Block(program, block.idx, block.parent_idx)
    copied.vars = {name: variable.copy_to(copied) for name, variable in block.vars.items()}
    copied.ops = [copy_operator(op, copied) for op in block.ops]
    return copied


def copy_operator(op: Operator, block: Block) -> Operator:
    """Return an operator like `op` that belongs to `block`, without entering it there."""
    inputs, outputs, attrs = dict(op.inputs), dict(op.outputs), dict(op.attrs)
    return Operator.make(block, op.definition, inputs, outputs, attrs)


def clone_operator(op: Operator, block: Block) -> Operator:
    """Return an operator like `op` that belongs to `block`, with blocks of its own there."""
    cloned = copy_operator(op, block)
    for attr, body in op.block_attrs().items():
        cloned.attrs[attr] = clone_block(block, body).idx
    return cloned


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
    """Infer the metas of all outputs in a block, and of the blocks within it, anew.

    Data, parameters and what else no operator writes keep their metas; so do persistables.
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


def prune_program(program: Program, targets: Variable | str | Iterable[Variable | str]) -> Program:
    """Return a new program with only what computes the targets, its blocks numbered anew."""
    listed = [targets] if isinstance(targets, Variable | str) else list(targets)
    names = [target.name if isinstance(target, Variable) else target for target in listed]
    twin = program.clone()
    block = twin.global_block()
    for name in names:
        block.var(name)
    prune_block(block, set(names))
    drop_unused_vars(block, names)
    twin.replace_blocks(renumbered_blocks(twin))
    return twin


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
    """Prune the bodies of an operator, and what it captures, to what leaves them."""
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
    """Remove the variables of a block that nothing in it, or within it, mentions any more."""
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
    """A block and those within it that an operator still names, outer ones first."""
    live = [block]
    for op in block.ops:
        for body in op.block_attrs().values():
            live.extend(_live_blocks(block.program.block(body)))
    return live


def renumbered_blocks(program: Program) -> list[Block]:
    """Return the blocks that an operator still names, with indices without gaps."""
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
