"""ZeRO-1: each process updates a part of every parameter, and gathers the others' parts.

What lies in shards is read from the program: a ``dist.shard`` says of which parameter a variable is
a part, and what an operator reads or writes beside such a part, persistable and of its shape, is
the part of a state.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import opwright as ow
from opwright_dist.errors import DistError

SHARD: Final = "dist.shard"
REDUCE_SHARD: Final = "dist.reduce_shard"
UNSHARD: Final = "dist.unshard"


class Shard(NamedTuple):
    """The part of a tensor that belongs to this process.

    Attributes
    ----------
    variable : Variable
        Flat, zeros behind the last element.
    whole : Variable
        Of the shape and dtype of the tensor.
    group : str
        The processes that have the parts.
    """

    variable: ow.Variable
    whole: ow.Variable
    group: str


def append_shards(parameters: Sequence[ow.Variable], group: str) -> None:
    """Append the own part of each parameter."""
    for parameter in parameters:
        block = parameter.block
        name = block.program.free_name(f"{parameter.name}/shard")
        attrs = {"group": group}
        block.append_op(SHARD, inputs={"x": parameter}, outputs={"out": name}, attrs=attrs)


def find_shards(program: ow.Program) -> dict[str, Shard]:
    """Return the parts of parameters that an optimizer updates, by the names of the parameters.

    Parameters
    ----------
    program : Program
        To which ``data_parallel(..., shard_optimizer=True)`` has appended.

    Returns
    -------
    dict of str to Shard
        Empty where nothing is divided.
    """
    block = program.global_block()
    shards = {}
    for op in block.ops:
        if op.type == SHARD:
            (whole,), (name,) = op.input("x"), op.output("out")
            shards[whole] = Shard(block.var(name), block.var(whole), str(op.attrs["group"]))
    return shards


@ow.transaction()
def gather_parameters(parameters: Iterable[ow.Variable]) -> None:
    """Append what gives every process the whole of parameters of which each has updated a part.

    Parameters
    ----------
    parameters : iterable of Variable
        Behind the operators that have written the variables of `find_shards`.

    Raises
    ------
    DistError
        A parameter is not divided.
    """
    for parameter in parameters:
        block = parameter.block
        shard = find_shards(block.program).get(parameter.name)
        if shard is None:
            raise DistError(
                f"gather_parameters: a parameter must be divided, got {parameter.name!r}; call "
                "data_parallel(pairs, shard_optimizer=True) with it first"
            )
        inputs = {"x": shard.variable, "like": parameter}
        attrs = {"group": shard.group}
        block.append_op(UNSHARD, inputs=inputs, outputs={"out": parameter.name}, attrs=attrs)


def find_sharded_states(program: ow.Program) -> dict[str, Shard]:
    """Return the persistable variables of which each process has a part, by name."""
    block = program.global_block()
    shards = find_shards(program)
    parts = {shard.variable.name: shard for shard in shards.values()}
    if not parts:
        return {}
    states: dict[str, Shard] = {}
    for op in block.ops:
        if op.type == REDUCE_SHARD:
            parts.update((op.output("out")[0], shards[name]) for name in op.input("like"))
            continue
        names = [*op.input_names(), *op.output_names()]
        beside = [parts[name] for name in names if name in parts]
        for name in names if beside else ():
            variable = block.find_var(name)
            if variable is None or not variable.persistable or name in states:
                continue
            for shard in beside:
                if variable.shape == shard.variable.shape:
                    states[name] = Shard(variable, shard.whole, shard.group)
    return states
