"""Removes ZeRO-1 shards from programs and states for saving, and restores them."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import opwright as ow
from opwright_dist.errors import DistError
from opwright_dist.groups.world import current_world
from opwright_dist.operators.shards import shard_length
from opwright_dist.training.shards import (
    REDUCE_SHARD,
    SHARD,
    SHARD_STATES,
    UNSHARD,
    Shard,
    find_sharded_states,
    find_shards,
)

Array = npt.NDArray[Any]

_EVERY: Final = "dist.every"
_PLAIN: Final = {
    REDUCE_SHARD: "dist.all_reduce",
    "dist.clip_by_norm": "clip_by_norm",
    "dist.clip_by_global_norm": "clip_by_global_norm",
}
"""Operators on shards and their equivalents for unsharded tensors."""

_GATHERED: Final = 1 << 20
"""Maximum number of elements gathered at once; each process stores them temporarily."""


def whole_sharded(program: ow.Program) -> ow.Program:
    """Return the program that `data_parallel` builds without ``shard_optimizer``.

    Parameters
    ----------
    program : Program
        The program, which is not modified; it is returned if nothing is sharded.
    """
    shards = find_shards(program)
    if not shards:
        return program
    twin = program.clone()
    block = twin.global_block()
    names = _find_names(block, shards)
    states = find_sharded_states(program)
    block.replace_ops([_plain_of(op, names) for op in block.ops if not _is_of_shards(op)])
    known = block.vars
    block.replace_vars({name: var for name, var in known.items() if names.get(name) not in known})
    for old, new in names.items():
        if old in block.vars:
            block.rename_var(old, new)
    order = dict.fromkeys(names.get(name, name) for name in known)
    block.replace_vars({name: block.vars[name] for name in order})
    for name, state in states.items():
        block.var(name).shape = state.whole.shape
    _infer_behind(program, twin)
    return twin


def _infer_behind(program: ow.Program, twin: ow.Program) -> None:
    """Infer the shapes after the first sharded tensor; earlier shapes are known."""
    twin.infer_shapes()
    before, after = program.global_block(), twin.global_block()
    for op in before.ops:
        if op.type in {SHARD, REDUCE_SHARD}:
            break
        for name in op.output_names():
            after.var(name).shape = before.var(name).shape
    twin.touch()


def _is_of_shards(op: ow.Operator) -> bool:
    return op.type in {SHARD, UNSHARD, SHARD_STATES, _EVERY}


def _find_names(block: ow.Block, shards: Mapping[str, Shard]) -> dict[str, str]:
    """Return the unsharded names of the variables to rename."""
    names = {}
    for op in block.ops:
        if op.type == _EVERY:
            names[op.input("x")[0]] = op.output("out")[0]
    prefixes = {shard.variable.name: parameter for parameter, shard in shards.items()}
    for name in block.vars:
        for prefix, parameter in prefixes.items():
            if name.startswith(prefix):
                names[name] = parameter + name[len(prefix) :]
    return names


def _plain_of(op: ow.Operator, names: Mapping[str, str]) -> ow.Operator:
    slots = {
        slot: tuple(names.get(name, name) for name in given)
        for slot, given in (*op.inputs.items(), *op.outputs.items())
    }
    if op.type not in _PLAIN:
        op.inputs = {slot: slots[slot] for slot in op.inputs}
        op.outputs = {slot: slots[slot] for slot in op.outputs}
        return op
    proto = ow.op_proto(_PLAIN[op.type])
    attrs = {attr.name: op.attrs[attr.name] for attr in proto.attrs if attr.name in op.attrs}
    given = {
        slot.name: list(slots[slot.name]) if slot.duplicable else slots[slot.name][0]
        for slot in (*proto.inputs, *proto.outputs)
        if slots.get(slot.name)
    }
    plain = ow.Operator(proto.type, **given, **attrs)
    plain.block = op.block
    return plain


def join_sharded(program: ow.Program, scope: ow.Scope) -> ow.Scope:
    """Return a scope with unsharded states in the first process of the group.

    Every process must call this function. The scope also has all other variables of `scope`.

    Parameters
    ----------
    program : Program
        The program of a training step.
    scope : Scope
        Holds the states.

    Raises
    ------
    DistError
        If a state has no value.
    """
    states = find_sharded_states(program)
    whole = scope.new_scope() if states else scope
    for name, state in states.items():
        value = scope.find_var(name)
        if value is None or not value.is_set:
            raise DistError(
                f"gather_state: states must have values, got none for {name!r}; run the startup "
                "program first"
            )
        _gather(whole, state, value.numpy())
    return whole


def _gather(whole: ow.Scope, state: Shard, own: Array) -> None:
    world = current_world()
    group = world.group(state.group)
    every = np.empty((group.size, len(own)), own.dtype) if group.rank == 0 else None
    for first in range(0, len(own), _GATHERED):
        piece = own[first : first + _GATHERED]
        parts = world.engine.gather(piece.tobytes(), state.group)
        if every is not None:
            for rank, part in enumerate(parts):
                every[rank, first : first + len(piece)] = np.frombuffer(part, own.dtype)
    if every is not None:
        shape = state.whole.shape or ()
        whole.var(state.variable.name).set(every.reshape(-1)[: prod(shape)].reshape(shape))


def take_sharded(program: ow.Program, values: Mapping[str, Array]) -> dict[str, Array]:
    """Return this process's shards of states, given the complete states.

    Parameters
    ----------
    program : Program
        The program of a training step.
    values : mapping of str to array
        Arrays by variable name; parameters and other variables are returned unchanged.
    """
    states = find_sharded_states(program)
    return {
        name: _part_of(states[name], array) if name in states else array
        for name, array in values.items()
    }


def _part_of(state: Shard, array: Array) -> Array:
    group = current_world().group(state.group)
    length = shard_length(array.shape, group.size)
    own = array.reshape(-1)[group.rank * length : (group.rank + 1) * length]
    part = np.zeros(length, array.dtype)
    part[: len(own)] = own
    return part
