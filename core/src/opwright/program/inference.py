"""Removes training from a program: gradients, updates, dropout."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from opwright.program.block import Block
from opwright.program.operator import Operator
from opwright.program.transforms import drop_unused_vars, renumbered_blocks
from opwright.vocabulary import FILL_LIKE, GRAD_SUFFIX, OUT, X

if TYPE_CHECKING:
    from opwright.program.program import Program


def stop_training(program: Program) -> None:
    """Set the attribute ``training`` of every operator that has it to false, as of dropout."""
    for block in program.blocks:
        for op in block.ops:
            if op.attrs.get("training") is True:
                op.attrs["training"] = False
                op.inputs.pop("step", None)  # it draws no random numbers any more
    program.touch()


def drop_training(program: Program) -> None:
    """Remove the operators that depend on a gradient, and those that only they need."""
    block = program.global_block()
    block.replace_ops(_forward_ops(block))
    drop_unused_vars(block, [v.name for v in block.vars.values() if v.is_data or v.is_parameter])
    program.replace_blocks(renumbered_blocks(program))


def _forward_ops(block: Block) -> list[Operator]:
    """Return the operators that depend on no gradient, and do not serve updates alone."""
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
    """Return operators whose outputs updates alone read: learning rates, penalties of weights."""
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
    """Whether `append_backward` begins here: with the gradient of a target by itself."""
    if op.type != FILL_LIKE:
        return False
    (source,), (name,) = op.input(X), op.output(OUT)
    return source + GRAD_SUFFIX in name
