"""Converts a training program to an inference program, like `torch.nn.Module.eval`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import opwright as ow
from opwright.errors import AttributeTypeError
from opwright_nn import arguments, checks


@arguments.suggest
def inference_program(
    program: ow.Program,
    targets: ow.Variable | str | Iterable[ow.Variable | str],
    given: Iterable[str] = (),
) -> ow.Program:
    """Return a new program that computes `targets` for prediction.

    Losses, gradients, updates and everything else that the targets do not need are removed. The
    attribute ``training`` of operators such as dropout and batch_norm becomes false.

    The only persistable variable that the new program writes is the count of runs, and only if an
    operator still draws random numbers. Parameters and states keep their values from before an
    update, even if they are targets.

    Parameters
    ----------
    program : Program
        The training program; it is not changed.
    targets : Variable, name, or list of these
        Variables of the global block.
    given : iterable of str
        Variables that are inputs of the new program, which lacks the operators that compute them.
    """
    if not isinstance(program, ow.Program):
        raise AttributeTypeError(
            f"inference_program: program must be a Program, got {program!r} "
            f"({type(program).__name__}); pass model.program of a Model"
        )
    if not checks.is_listed(given):
        raise AttributeTypeError(
            f"inference_program: given must be a list of names, got {given!r} "
            f"({type(given).__name__}); write given=['hidden'], for example"
        )
    twin = program.clone()
    twin.stop_training()
    _make_inputs(twin, given)
    return _without_writes(twin, program, targets)


def trial_program(
    program: ow.Program, targets: ow.Variable | str | Iterable[ow.Variable | str]
) -> ow.Program:
    """Return a new program that computes `targets`, such as gradients, as a training step does.

    As in `inference_program`, persistable variables are not written; dropout and batch_norm train.
    """
    return _without_writes(program.clone(), program, targets)


def _without_writes(
    twin: ow.Program,
    program: ow.Program,
    targets: ow.Variable | str | Iterable[ow.Variable | str],
) -> ow.Program:
    new_names = _rename_updates(twin)
    pruned = twin.prune(targets)
    _keep_states(pruned.global_block(), new_names, program.global_block())
    pruned.touch()
    return pruned


def input_names(program: ow.Program) -> list[str]:
    """Return the names that must be fed: read before they are written, and not persistable."""
    block = program.global_block()
    return [name for name in ow.names_read_first(block.ops) if not block.var(name).persistable]


def persistable_names(program: ow.Program) -> list[str]:
    """Return the names that a scope must contain: read before they are written, and persistable."""
    block = program.global_block()
    return [name for name in ow.names_read_first(block.ops) if block.var(name).persistable]


def computed_names(program: ow.Program) -> set[str]:
    """Return the names of all variables that operators write, except persistable variables."""
    block = program.global_block()
    names = {name for op in block.ops for name in op.output_names()}
    return {name for name in names if not block.var(name).persistable}


def _make_inputs(program: ow.Program, given: Iterable[str]) -> None:
    """Make the operators that compute the given variables write to other variables instead."""
    block = program.global_block()
    for name in given:
        unused = block.create_var(program.free_name(f"{name}/computed"))
        for op in block.ops:
            for slot in op.outputs:
                _rename(op.outputs, slot, name, unused.name)


def _rename_updates(program: ow.Program) -> dict[str, str]:
    """Rename the updated value of each state, so no target reads it; return the names by state."""
    names = {state: program.free_name(f"{state}/after") for state in persistable_names(program)}
    for op in program.global_block().ops:
        for slot, outputs in op.outputs.items():
            op.outputs[slot] = tuple([names.get(name, name) for name in outputs])
    return names


def _keep_states(block: ow.Block, new_names: Mapping[str, str], whole: ow.Block) -> None:
    """Change the operators so that they write neither states nor other persistable variables."""
    states = {new: state for state, new in new_names.items()}
    ops: list[ow.Operator] = []
    for op in block.ops:
        for slot in op.definition.proto.outputs:
            for name in op.outputs.get(slot.name, ()):
                if name not in states:
                    # The variable is written before it is read, so it is not a state but a result.
                    block.var(name).persistable = False
                elif op.attrs.get("training") is False and slot.aliases is not None:
                    # Outside training the operator writes the value that the state already has.
                    _rename(op.outputs, slot.name, name, states[name])
                else:
                    state = whole.var(states[name])  # no operator here may read it
                    block.create_var(name, state.shape, state.dtype)
                    if slot.aliases is not None:
                        ops.append(_copy(block, state.name, name))
                        _rename(op.inputs, slot.aliases, state.name, name)
        ops.append(op)
    block.replace_ops(ops)


def _rename(slots: dict[str, tuple[str, ...]], slot: str, old: str, new: str) -> None:
    slots[slot] = tuple([new if name == old else name for name in slots[slot]])


def _copy(block: ow.Block, source: str, target: str) -> ow.Operator:
    copy = ow.Operator("assign", x=source, out=target)
    copy.block = block
    return copy
