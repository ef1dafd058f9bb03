"""ZeRO-1: each process updates its shard of every parameter and gathers the other shards.

The program records the shards: ``dist.shard`` links a shard to its parameter, and
``dist.shard_states`` links it to its states.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import opwright as ow
from opwright.plugin import suggest_arguments
from opwright_dist.errors import DistError
from opwright_dist.groups.world import current_world

SHARD: Final = "dist.shard"
REDUCE_SHARD: Final = "dist.reduce_shard"
UNSHARD: Final = "dist.unshard"
SHARD_STATES: Final = "dist.shard_states"

Pair = tuple[ow.Variable, ow.Variable]


class Shard(NamedTuple):
    """The part of a tensor that belongs to this process.

    Attributes
    ----------
    variable : Variable
        Flat, padded with zeros.
    whole : Variable
        A variable with the shape and dtype of the complete tensor.
    group : str
        The processes that own the parts.
    """

    variable: ow.Variable
    whole: ow.Variable
    group: str


def append_shards(parameters: Sequence[ow.Variable], group: str) -> None:
    """Append the local shard of each parameter."""
    for parameter in parameters:
        block = parameter.block
        name = block.program.free_name(f"{parameter.name}/shard")
        attrs = {"group": group, "rank": current_world().group(group).rank}
        block.append_op(SHARD, inputs={"x": parameter}, outputs={"out": name}, attrs=attrs)


@suggest_arguments
def find_shards(program: ow.Program) -> dict[str, Shard]:
    """Return the parameter shards that an optimizer updates, by parameter name.

    Parameters
    ----------
    program : Program
        A program after ``data_parallel(..., shard_optimizer=True)``.

    Returns
    -------
    dict of str to Shard
        Empty if nothing is sharded.
    """
    block = program.global_block()
    shards = {}
    for op in block.ops:
        if op.type == SHARD:
            (whole,), (name,) = op.input("x"), op.output("out")
            shards[whole] = Shard(block.var(name), block.var(whole), str(op.attrs["group"]))
    return shards


@suggest_arguments
@ow.transaction()
def gather_parameters(parameters: Iterable[ow.Variable]) -> None:
    """Append the gathering of parameters after each process has updated its shards.

    Parameters
    ----------
    parameters : iterable of Variable
        Parameters whose shards from `find_shards` have been updated.

    Raises
    ------
    DistError
        If a parameter is not sharded.
    """
    for parameter in parameters:
        block = parameter.block
        shard = find_shards(block.program).get(parameter.name)
        if shard is None:
            raise _not_divided("gather_parameters", parameter)
        inputs = {"x": shard.variable, "like": parameter}
        attrs = {"group": shard.group}
        block.append_op(UNSHARD, inputs=inputs, outputs={"out": parameter.name}, attrs=attrs)


@suggest_arguments
@ow.transaction()
def declare_states(pair: Pair, states: Sequence[ow.Variable]) -> None:
    """Declare variables as local shards of the states of a parameter, for saving and loading.

    opwright-nn optimizers do so automatically.

    Parameters
    ----------
    pair : (Variable, Variable)
        The parameter, and the gradient shard from `data_parallel`.
    states : sequence of Variable
        Persistable, flat variables with the shape of the variable from `find_shards`.

    Raises
    ------
    DistError
        If the parameter is not sharded.
    """
    parameter, gradient = pair
    shard = find_shards(parameter.block.program).get(parameter.name)
    if shard is None:
        raise _not_divided("declare_states", parameter)
    inputs = {"x": list(states), "gradient": gradient, "like": parameter}
    parameter.block.append_op(SHARD_STATES, inputs, {}, {"group": shard.group})


def _not_divided(who: str, parameter: ow.Variable) -> DistError:
    return DistError(
        f"{who}: a parameter must be sharded, got {parameter.name!r}; call "
        "data_parallel(pairs, shard_optimizer=True) with it first"
    )


def find_sharded_states(program: ow.Program) -> dict[str, Shard]:
    """Return the sharded persistable variables by name."""
    block = program.global_block()
    states: dict[str, Shard] = {}
    for op in block.ops:
        if op.type == SHARD_STATES:
            whole, group = block.var(op.input("like")[0]), str(op.attrs["group"])
            states.update((name, Shard(block.var(name), whole, group)) for name in op.input("x"))
    return states
