"""Data-parallel training: processes share a batch, and gradients are averaged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import opwright as ow
from opwright.plugin import suggest_arguments
from opwright_dist.errors import DistError
from opwright_dist.groups.world import WORLD, current_world
from opwright_dist.training.divided import Division, find_divisions
from opwright_dist.training.shards import append_shards

Pair = tuple[ow.Variable, ow.Variable]

UNEQUAL_ROWS: Final = ("refuse", "weight")


@suggest_arguments
@ow.transaction()
def data_parallel(
    pairs: Sequence[Pair],
    group: str = WORLD,
    *,
    rows: ow.Variable | None = None,
    unequal_rows: str = "refuse",
    shard_optimizer: bool = False,
) -> list[Pair]:
    """Append the mean of every gradient over the processes of a group.

    Call this function between `append_backward` and the optimizer. The plan sends gradients in
    buckets, each as soon as its last gradient is ready. A group of one process has no overhead. The
    pass ``dist_random`` makes the random operators of the program draw the same numbers as one
    process would draw for the whole batch. The gradient of a table that `layers.embedding`
    partitions over the group already includes all processes and is returned unchanged.

    Parameters
    ----------
    pairs : sequence of (Variable, Variable)
        Each parameter with its gradient, of a loss that is the mean over the examples of the
        process.
    group : str
        The processes that train together.
    rows : Variable, optional
        A variable whose first dimension is the number of examples; by default the first feed with
        an unknown first dimension. Without such a variable, numbers of examples are not compared,
        and each process draws random numbers independently.
    unequal_rows : str
        How unequal numbers of examples are handled: ``"refuse"`` fails the run, and ``"weight"``
        weights each process by its number of examples, as if one process had computed the whole
        batch.
    shard_optimizer : bool
        With True, each process receives only a part of every mean gradient, updates this part of
        the parameter, and stores the optimizer states of this part (ZeRO-1; Rajbhandari et al.,
        ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, 2020). opwright-nn
        optimizers support it automatically. Any other optimizer must update the variables of
        `find_shards`, declare its states with `declare_states`, and be followed by
        `gather_parameters`. A table of `layers.embedding` over the group already has states per
        part and is unchanged. For a group of one, the program is the same as with False.

    Returns
    -------
    list of (Variable, Variable)
        Each parameter with its mean gradient, or with a flat part of it.

    Raises
    ------
    DistError
        If the group is unknown; if `unequal_rows` is ``"weight"`` and no variable has the number of
        examples; if the group partitions a layer, so its processes share one batch; if its
        processes have different parts of a parameter that another group partitions; or if
        `shard_optimizer` is true and another group partitions a parameter.
    """
    current_world().group(group)
    if unequal_rows not in UNEQUAL_ROWS:
        raise DistError(
            f"data_parallel: unequal_rows must be one of {list(UNEQUAL_ROWS)}, got {unequal_rows!r}"
        )
    if not pairs:
        return []
    examples = find_rows(pairs[0][1].block.program) if rows is None else rows
    if examples is None and unequal_rows == "weight":
        raise DistError(
            "data_parallel: unequal_rows='weight' needs a variable whose first dimension is the "
            "number of examples and unknown, got a program without such a feed; declare "
            "this dimension of the input as None, or pass the variable as rows"
        )
    divisions = find_divisions(pairs[0][1].block.program)
    averaged = {
        gradient.name: gradient
        for parameter, gradient in pairs
        if _is_joined(parameter.name, divisions.get(parameter.name), group)
    }
    whole = [parameter for parameter, gradient in pairs if gradient.name not in averaged]
    if shard_optimizer:
        _check_whole(whole, divisions, group)
    has_shards = shard_optimizer and current_world().group(group).size > 1
    op_type = "dist.reduce_shard" if has_shards else "dist.all_reduce"
    for _, gradient in reversed(pairs):  # the gradients of the last layers are ready first
        if gradient.name in averaged:
            continue
        averaged[gradient.name] = _append_mean(op_type, gradient, group, examples, unequal_rows)
    if has_shards:
        append_shards(whole, group)
    return [(parameter, averaged[gradient.name]) for parameter, gradient in pairs]


def _check_whole(
    parameters: Sequence[ow.Variable], divisions: Mapping[str, Division], group: str
) -> None:
    for parameter in parameters:
        if parameter.name in divisions:
            raise DistError(
                "data_parallel: with shard_optimizer=True, parameters must be "
                f"unpartitioned or partitioned over group {group!r}, got "
                f"{parameter.name!r}, which is partitioned over group "
                f"{divisions[parameter.name].group!r}; omit shard_optimizer"
            )


def _is_joined(name: str, division: Division | None, group: str) -> bool:
    """Return whether a gradient already includes all processes of the group.

    Groups are compared by name, since programs do not depend on the number of processes.
    """
    if division is None:
        return False
    if division.group == group and division.losses == "each":
        return True
    if division.group == group or not division.is_alike(group):
        raise DistError(
            "data_parallel: processes that average gradients must have the same part of "
            f"{name!r}, got group {group!r}, whose processes have different parts; create "
            "separate groups for layers and data with opwright_dist.new_groups"
        )
    return False


def find_rows(program: ow.Program) -> ow.Variable | None:
    """Return the first feed of a program with an unknown first dimension."""
    block = program.global_block()
    written: set[str] = set()
    for op in block.ops:
        for names in op.inputs.values():
            for name in names:
                variable = block.find_var(name)
                if variable is None or variable.persistable or name in written:
                    continue
                if variable.shape is None or variable.shape[:1] == (-1,):
                    return variable
        written.update(name for names in op.outputs.values() for name in names)
    return None


def _append_mean(
    op_type: str, gradient: ow.Variable, group: str, rows: ow.Variable | None, unequal_rows: str
) -> ow.Variable:
    block = gradient.block
    name = block.program.free_name(f"{gradient.name}_mean")
    inputs = {"x": gradient} if rows is None else {"x": gradient, "rows": rows}
    attrs = {"reduce": "mean", "group": group, "unequal_rows": unequal_rows}
    block.append_op(op_type, inputs=inputs, outputs={"out": name}, attrs=attrs)
    return block.var(name)
