"""Helpers shared by the definitions of collectives."""

from __future__ import annotations

from typing import Final

from opwright.op import InferContext, OpMaker, normalize_axis
from opwright_dist.groups.world import WORLD, Group, current_world
from opwright_dist.names import BLOCKS, TABLE

DTYPES: Final = ("float16", "bfloat16", "float32", "float64", "int32", "int64")
"""The dtypes that can be reduced; 16-bit floats are summed in float32 and rounded once."""

REDUCTIONS: Final = ("sum", "mean", "max", "min")


def add_group(maker: OpMaker) -> OpMaker:
    """Add the attribute for the group."""
    return maker.add_attr("group", str, "name of the group of processes").default(WORLD)


def add_reduction(maker: OpMaker) -> OpMaker:
    """Add the attribute for the reduction."""
    return (
        maker.add_attr("reduce", str, "reduction over the processes")
        .default("sum")
        .one_of(*REDUCTIONS)
    )


def add_losses(maker: OpMaker) -> OpMaker:
    """Add the attribute that describes the differentiated loss."""
    return (
        maker.add_attr(
            "losses",
            str,
            "'each': each process has its own loss; 'one': all processes compute the same loss",
        )
        .default("each")
        .one_of("each", "one")
    )


def add_layout(maker: OpMaker) -> OpMaker:
    """Add the attribute `layout`, which describes how the complete array is partitioned."""
    return (
        maker.add_attr("layout", str, "how the complete array is partitioned; see dist.own_part")
        .default(BLOCKS)
        .one_of(BLOCKS, TABLE)
    )


def add_tensors(maker: OpMaker, comment: str) -> OpMaker:
    """Add the input and output tensors of a process."""
    return (
        maker.add_input("x", "any shape")
        .dtypes(*DTYPES)
        .add_output("out", comment)
        .same_dtype_as("x")
    )


def find_group(ctx: InferContext) -> Group:
    """Return the group of the operator.

    Raises
    ------
    DistError
        If the group does not exist. Every shape rule checks this, so passes and kernels need not.
    """
    return current_world().group(ctx.attr("group"), ctx.op_type)


def same_shape(ctx: InferContext) -> None:
    """Give the output the shape of x."""
    find_group(ctx)
    ctx.set_output("out", ctx.input("x").shape)


def check_divisible(ctx: InferContext) -> tuple[list[int], int]:
    """Return the shape of x and the axis; the process count must divide the axis length."""
    shape = list(ctx.input("x").shape)
    axis = normalize_axis(ctx, ctx.attr("axis"), len(shape))
    size = find_group(ctx).size
    if shape[axis] != -1 and shape[axis] % size:
        ctx.fail(
            f"the length of axis {axis} must be a multiple of the {size} processes of group "
            f"{ctx.attr('group')!r}, got {shape[axis]}; pad it"
        )
    return shape, axis
