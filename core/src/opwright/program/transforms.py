"""Copies and prunes blocks, re-infers their shapes, and removes training operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from opwright.errors import OpwrightError
from opwright.program.block import Block
from opwright.program.building import infer_outputs
from opwright.program.operator import Operator
from opwright.vocabulary import ASSIGN, FILL_LIKE, GRAD_SUFFIX, OUT, X

if TYPE_CHECKING:
    from opwright.program.program import Program


def copy_block(block: Block, program: Program) -> Block:
    """Return a copy of a block for `program`, without adding it to the program."""
    return _fill(Block(program, block.idx, block.parent_idx), block, _copy_operator)


def _fill(twin: Block, source: Block, copy: Callable[[Operator, Block], Operator]) -> Block:
    twin.vars = {name: variable.copy_to(twin) for name, variable in source.vars.items()}
    twin.ops = [copy(op, twin) for op in source.ops]
    return twin


def _copy_operator(op: Operator, block: Block) -> Operator:
    return Operator.make(block, op.definition, dict(op.inputs), dict(op.outputs), dict(op.attrs))


def clone_operator(op: Operator, block: Block) -> Operator:
    """Return a copy of an operator and its blocks for `block`, without adding it to the block."""
    twin = _copy_operator(op, block)
    for attr, body in op.block_attrs().items():
        twin.attrs[attr] = clone_block(block, body).idx
    return twin


def clone_block(parent: Block, index: int) -> Block:
    """Copy a block and its inner blocks into `parent`; return the copy."""
    program = parent.program
    return _fill(program.add_block(parent.idx), program.block(index), clone_operator)


def clear_block(block: Block) -> None:
    """Remove the operators and variables of a block and of its inner blocks."""
    for part in _live_blocks(block):
        part.replace_ops([])
        part.replace_vars({})


def infer_block(block: Block) -> None:
    """Re-infer the metas of all outputs in a block and its inner blocks.

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


def prune_program(program: Program, names: Sequence[str]) -> None:
    """Keep only the operators that compute these variables of the global block."""
    block = program.global_block()
    for name in names:
        block.var(name)
    prune_block(block, set(names))
    drop_unused_vars(block, names)
    program.replace_blocks(renumbered_blocks(program))


def prune_block(block: Block, needed: set[str]) -> None:
    """Keep the operators of a block that write values needed at its end."""
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
    """Prune the bodies and captured variables of an operator to what the results need."""
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
    """Remove variables of a block and its inner blocks that no operator in these blocks uses."""
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
    """Return a block and the blocks of its operators, outer blocks first."""
    inner = (body for op in block.ops for body in op.block_attrs().values())
    return [block, *(part for body in inner for part in _live_blocks(block.program.block(body)))]


def renumbered_blocks(program: Program) -> list[Block]:
    """Return the blocks that operators still use, renumbered without gaps."""
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


def stop_training(program: Program) -> None:
    """Set the attribute ``training`` of every operator that has it, such as dropout, to false."""
    for block in program.blocks:
        for op in block.ops:
            if op.attrs.get("training") is True:
                op.attrs["training"] = False
                op.inputs.pop("step", None)  # it no longer draws random numbers
    program.touch()


def find_moving_ops(block: Block) -> list[list[Operator]]:
    """Return operators that update state in training, such as batch_norm, and their gradients."""
    moving = []
    for op in block.ops:
        slots = op.definition.proto.outputs
        if "training" in op.attrs and any(slot.aliases for slot in slots):
            kept = {n for slot in slots if slot.intermediate for n in op.outputs.get(slot.name, ())}
            reads = [o for o in block.ops if "training" in o.attrs and kept & {*o.input_names()}]
            moving.append([op, *reads])
    return moving


def freeze(program: Program) -> None:
    """Exclude all parameters from training, and freeze states that training would update."""
    for parameter in program.parameters():
        parameter.trainable = False
    for ops in find_moving_ops(program.global_block()):
        for op in ops:
            op.attrs["training"] = False


def drop_training(program: Program) -> None:
    """Remove operators that depend on a gradient, and operators that only these operators need."""
    block = program.global_block()
    block.replace_ops(_forward_ops(block))
    drop_unused_vars(block, [v.name for v in block.vars.values() if v.is_data or v.is_parameter])
    program.replace_blocks(renumbered_blocks(program))


def _forward_ops(block: Block) -> list[Operator]:
    """Return the operators that neither depend on a gradient nor are used only by updates."""
    kept: list[Operator] = []
    appended_late: list[Operator] = []
    after_gradients: set[str] = set()
    needed_by_updates: set[str] = set()
    for op in block.ops:
        if _is_seed(op) or not after_gradients.isdisjoint(op.input_names()):
            after_gradients.update(op.output_names())
            needed_by_updates.update(op.input_names())
            continue
        after_gradients.difference_update(op.output_names())
        kept.append(op)
        if after_gradients:
            appended_late.append(op)
    dropped = _serving(kept, appended_late, needed_by_updates)
    return [op for op in kept if op not in dropped]


def _serving(kept: list[Operator], candidates: list[Operator], needed: set[str]) -> set[Operator]:
    """Return operators whose outputs only updates read: learning rates and weight penalties."""
    n_readers = Counter(name for op in kept for name in set(op.input_names()))
    serving: set[Operator] = set()
    n_before = -1
    while len(serving) != n_before:
        n_before = len(serving)
        for op in candidates[::-1]:
            own = set(op.input_names())
            outputs = set(op.output_names())
            is_read = any(n_readers[name] > (name in own) for name in outputs)
            if op not in serving and not is_read and not needed.isdisjoint(outputs):
                serving.add(op)
                needed.update(own)
                n_readers.subtract(own)
    return serving


def _is_seed(op: Operator) -> bool:
    """Whether an operator gives a target its initial gradient in `append_backward`."""
    if op.type not in (ASSIGN, FILL_LIKE):
        return False
    (source,), (name,) = op.input(X), op.output(OUT)
    if op.type == ASSIGN:  # copies a given gradient to a variable with a gradient name
        target, found, _ = name.rpartition(GRAD_SUFFIX)
        return bool(found) and op.block is not None and target in op.block.vars
    return source + GRAD_SUFFIX in name
