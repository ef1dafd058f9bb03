"""What is left of a training program for prediction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import opwright as ow
from opwright.vocabulary import ASSIGN, OUT, STEP_SLOT, X


def inference_program(
    program: ow.Program, targets: ow.Variable | str | Iterable[ow.Variable | str]
) -> ow.Program:
    """Return a new program that computes `targets` as prediction does.

    Losses, gradients, updates and everything else that the targets do not need is left out, and
    operators with an attribute ``training``, such as dropout and batch_norm, have it false.

    It writes nothing that the scope keeps, but for the count of runs where an operator still draws
    random numbers. Parameters and states, which the program reads before it writes them, have the
    value from before an update everywhere, also as a target.

    Parameters
    ----------
    program : Program
        Is not changed.
    targets : Variable, name, or list of these
        Variables of the global block.
    """
    twin = program.clone()
    for block in twin.blocks:
        for op in block.ops:
            if op.attrs.get("training") is True:
                op.attrs["training"] = False
                # It draws nothing now, and a prediction must not move the training's numbers on.
                op.inputs.pop(STEP_SLOT, None)
    new_names = _set_updates_aside(twin)
    pruned = twin.prune(targets)
    _keep_states(pruned.global_block(), new_names, program.global_block())
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


def _set_updates_aside(program: ow.Program) -> dict[str, str]:
    """Give each new value of a state a name that no target needs; return these by state."""
    names = {state: program.free_name(f"{state}/after") for state in persistable_names(program)}
    for op in program.global_block().ops:
        for slot, written in op.outputs.items():
            op.outputs[slot] = tuple([names.get(name, name) for name in written])
    return names


def _keep_states(block: ow.Block, new_names: Mapping[str, str], whole: ow.Block) -> None:
    """Have the operators that are left write no state, and nothing else that a scope keeps."""
    states = {new: state for state, new in new_names.items()}
    ops: list[ow.Operator] = []
    for op in block.ops:
        for slot in op.definition.proto.outputs:
            for name in op.outputs.get(slot.name, ()):
                if name not in states:
                    # What is written before it is read is no state, but is computed.
                    block.var(name).persistable = False
                elif "training" in op.attrs and slot.aliases is not None:
                    # Out of training it writes the value that is there.
                    _rename(op.outputs, slot.name, name, states[name])
                else:
                    state = whole.var(states[name])  # which nothing that is left may read
                    block.create_var(name, state.shape, state.dtype)
                    if slot.aliases is not None:
                        ops.append(_copy(block, state.name, name))
                        _rename(op.inputs, slot.aliases, state.name, name)
        ops.append(op)
    block.replace_ops(ops)


def _rename(slots: dict[str, tuple[str, ...]], slot: str, old: str, new: str) -> None:
    slots[slot] = tuple([new if name == old else name for name in slots[slot]])


def _copy(block: ow.Block, source: str, target: str) -> ow.Operator:
    copy = ow.Operator(ASSIGN, **{X: source, OUT: target})
    copy.block = block
    return copy
