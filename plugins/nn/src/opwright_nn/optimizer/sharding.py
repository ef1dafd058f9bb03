"""Updates of parameter shards, if several processes share the optimizer states: ZeRO-1.

The program determines which parameters are sharded: ``dist.shard`` connects a parameter with the
shard of this process. Gradients, regularizers and states then belong to that shard, and after its
update each process gathers the other shards.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import opwright as ow
from opwright.errors import ProgramError
from opwright_nn.parallel import find_divided

Pair = tuple[ow.Variable, ow.Variable]

_SHARD: Final = "dist.shard"
_UNSHARD: Final = "dist.unshard"
_STATES: Final = "dist.shard_states"


class Shards(NamedTuple):
    """The parameter shards that this process updates.

    Attributes
    ----------
    variables : dict of str to Variable
        By parameter name; empty if nothing is sharded.
    group : str
        The processes that hold the shards.
    """

    variables: dict[str, ow.Variable]
    group: str = ""

    def __bool__(self) -> bool:
        return bool(self.variables)

    def target(self, parameter: ow.Variable) -> ow.Variable:
        """Return the variable that a parameter's update changes: the parameter, or its shard."""
        return self.variables.get(parameter.name, parameter)

    def declare(
        self, parameter: ow.Variable, gradient: ow.Variable, states: Sequence[ow.Variable]
    ) -> None:
        """Declare which variables are sharded states of a parameter, for saving and loading."""
        if states and parameter.name in self.variables:
            inputs = {"x": list(states), "gradient": gradient, "like": parameter}
            gradient.block.append_op(_STATES, inputs, {}, {"group": self.group})

    def append_join(self, parameters: Iterable[ow.Variable]) -> None:
        """Append the operators that gather the complete parameters in every process."""
        for parameter in parameters:
            part = self.variables.get(parameter.name)
            if part is not None:
                inputs, attrs = {"x": part, "like": parameter}, {"group": self.group}
                part.block.append_op(_UNSHARD, inputs, {"out": parameter.name}, attrs)


def find_shards(who: str, pairs: Iterable[Pair]) -> Shards:
    """Return the shards of the sharded parameters.

    Raises
    ------
    ProgramError
        Only some of the parameters are sharded, or they are sharded over different groups.
    """
    names = [parameter.name for parameter, _ in pairs]
    divided = find_divided(ow.default_main_program())  # whose states are already sharded
    parts: dict[str, ow.Variable] = {}
    groups = set()
    block = ow.default_main_program().global_block()
    for op in block.ops:
        if op.type == _SHARD and op.input("x")[0] in names:
            parts[op.input("x")[0]] = block.var(op.output("out")[0])
            groups.add(str(op.attrs["group"]))
    whole = [name for name in names if parts and name not in parts and name not in divided]
    if whole or len(groups) > 1:
        problem = f"{whole[0]!r}, which is not" if whole else f"the groups {sorted(groups)}"
        raise ProgramError(
            f"{who}: all parameters or none must be divided over one group of processes, got "
            f"{problem}; give all pairs to data_parallel(shard_optimizer=True) at once"
        )
    return Shards(parts, *groups)


def shape_of_state(target: ow.Variable) -> tuple[int, ...]:
    """Return the shape of a parameter's optimizer state, or of the shard that is updated.

    The shape of a shard is unknown until the operators that write it know their input shapes.
    """
    return (-1,) if target.shape is None else target.shape


def find_updates(block: ow.Block, name: str) -> list[ow.Operator]:
    """Return the operators that write a parameter, or the shard of it that is updated."""
    written = {name}
    for op in block.ops:
        if op.type == _SHARD and op.input("x") == (name,):
            written.update(op.output("out"))
    return [
        op for op in block.ops if op.type != _SHARD and not written.isdisjoint(op.output_names())
    ]
