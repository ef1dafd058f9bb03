"""Broadcasts the state of one process to all processes."""

from __future__ import annotations

from typing import Any

import numpy as np

import opwright as ow
from opwright.plugin import suggest_arguments
from opwright.vocabulary import STEP
from opwright_dist.groups.world import WORLD, current_world
from opwright_dist.training.divided import Division, find_divisions
from opwright_dist.training.shards import find_sharded_states


@suggest_arguments
@ow.transaction()
def share_startup(
    startup: ow.Program,
    group: str = WORLD,
    *,
    root: int = 0,
    program: ow.Program | None = None,
) -> None:
    """Append a broadcast of the initial state of process `root` to a startup program.

    Parameters
    ----------
    startup : Program
        Variables written so far are broadcast; later variables are not. Variables with different
        parts on the processes are skipped.
    group : str
        The processes that share the state.
    root : int
        The rank of the source process in the group.
    program : Program, optional
        The main program, whose partitioned states are also skipped.
    """
    current_world().group(group)
    divisions = {} if program is None else find_divisions(program)
    block = startup.global_block()
    shared = {
        name
        for op in block.ops
        if (op.type == "dist.broadcast" and op.attrs["group"] == group) or _is_own(op, group)
        for name in op.output("out")
    }
    shared.update(name for name, of in divisions.items() if _differs(of, group))
    written = [name for op in block.ops for names in op.outputs.values() for name in names]
    for name in dict.fromkeys(written):
        if name not in shared and block.var(name).persistable:
            attrs = {"group": group, "root": root}
            block.append_op(
                "dist.broadcast", inputs={"x": name}, outputs={"out": name}, attrs=attrs
            )


def _is_own(op: ow.Operator, group: str) -> bool:
    """Return whether an operator initializes a part that differs within the group."""
    if op.type != "dist.own_part":
        return False
    attrs: Any = op.attrs
    return _differs(Division(attrs["axis"], attrs["group"], attrs["layout"], 0), group)


def _differs(division: Division, group: str) -> bool:
    """Return whether processes of a group have different parts; true if `group` partitions them."""
    return division.group == group or not division.is_alike(group)


@suggest_arguments
def broadcast_state(
    program: ow.Program,
    scope: ow.Scope | None = None,
    group: str = WORLD,
    *,
    root: int = 0,
    device: str = "cpu",
) -> None:
    """Broadcast the parameters, optimizer states and ``@step`` of process `root`.

    Use this function for a state that does not come from the startup program, for example from a
    file that only one process reads. Every process of the group must call this function. Sharded
    states of ``data_parallel(..., shard_optimizer=True)`` are unchanged.

    Parameters
    ----------
    program : Program
        The main program with the persistable variables.
    scope : Scope, optional
        The scope of the variables; by default the default scope. Partitioned variables are skipped,
        and so are variables that have no value on any process.
    group : str
        The processes that share the state.
    root : int
        The rank of the source process in the group.
    device : str
        The device of the variables.

    Raises
    ------
    DistError
        If shapes or dtypes differ between processes, or a process is missing.
    """
    if current_world().group(group).size == 1:
        return
    where = ow.default_scope() if scope is None else scope
    block = ow.Program().global_block()
    own = {n for n, division in find_divisions(program).items() if not division.is_alike(group)}
    own.update(find_sharded_states(program))
    for variable in program.global_block().vars.values():
        held = where.find_var(variable.name)
        if not variable.persistable or held is None or not held.is_set or held.name in own:
            continue
        if variable.name == STEP:
            _share_step(held, group, root)
            continue
        block.create_var(variable.name, shape=held.shape, dtype=held.dtype, persistable=True)
        attrs = {"group": group, "root": root}
        names = {"x": variable.name}, {"out": variable.name}
        block.append_op("dist.broadcast", inputs=names[0], outputs=names[1], attrs=attrs)
    ow.Network(block).compile(fetch=[], device=device, scope=where)()


def _share_step(step: Any, group: str, root: int) -> None:
    """Broadcast the run count outside of plans, since a plan would increment it."""
    count = int(step.numpy().item())
    counts = current_world().engine.gather(str(count).encode(), group)
    step.set(np.array([int(counts[root])], np.int64))
