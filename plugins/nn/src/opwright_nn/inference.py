"""What is left of a training program for prediction."""

from __future__ import annotations

from collections.abc import Iterable

import opwright as ow


def inference_program(
    program: ow.Program, targets: ow.Variable | str | Iterable[ow.Variable | str]
) -> ow.Program:
    """Return a new program that computes `targets` as prediction does.

    Losses, gradients, updates and everything else that the targets do not need is left out, and
    operators with an attribute ``training``, such as dropout and batch_norm, have it false.

    Parameters
    ----------
    program : Program
        Is not changed.
    targets : Variable, name, or list of these
        Variables of the global block.
    """
    pruned = program.prune(targets)
    for block in pruned.blocks:
        for op in block.ops:
            if op.attrs.get("training") is True:
                op.attrs["training"] = False
                # It draws nothing now, and a prediction must not move the training's numbers on.
                op.inputs.pop("step", None)
    pruned.touch()
    return pruned


def input_names(program: ow.Program) -> list[str]:
    """Return what must be fed: read by an operator before it is written, and not persistable."""
    block = program.global_block()
    return [name for name in _names_read_first(block) if not block.var(name).persistable]


def persistable_names(program: ow.Program) -> list[str]:
    """Return what a scope must hold: read before it is written, and persistable."""
    block = program.global_block()
    return [name for name in _names_read_first(block) if block.var(name).persistable]


def _names_read_first(block: ow.Block) -> list[str]:
    written: set[str] = set()
    found: dict[str, None] = {}
    for op in block.ops:
        found.update((name, None) for name in op.input_names() if name not in written)
        written.update(op.output_names())
    return list(found)
