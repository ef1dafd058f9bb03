"""`dist.shard`, `dist.reduce_shard` and `dist.unshard`, for evenly sharded tensors.

A shard is flat. The elements of a tensor, in memory order, are divided into parts of equal length,
one per process, padded with zeros.
"""

from __future__ import annotations

from typing import Final

from opwright.op import BodyContext, InferContext, OpMaker, Shape, no_gradient, numel
from opwright_dist.errors import DistError
from opwright_dist.operators.description import (
    DTYPES,
    add_group,
    add_reduction,
    find_group,
    same_shape,
)

LINE: Final = 16
"""Shard lengths are multiples of this number, so shards are complete cache lines."""

_UPDATES: Final = no_gradient(
    "it is applied to gradients and parameters after the backward operators"
)


def shard_length(shape: Shape, n_processes: int) -> int:
    """Return the shard length of a process, or -1 if `shape` is unknown."""
    if -1 in shape:
        return -1
    lines = -(-numel(shape) // (LINE * n_processes))
    return LINE * lines


def _length_for(ctx: InferContext, slot: str) -> int:
    return shard_length(ctx.input(slot).shape, find_group(ctx).size)


def _shard_shape(ctx: InferContext) -> None:
    """Give the output a length of the element count divided by the process count, rounded up."""
    ctx.set_output("out", (_length_for(ctx, "x"),))


def _own_shard_shape(ctx: InferContext) -> None:
    """Apply the shape rule of shards, and refuse a program with the shards of another rank."""
    wanted, rank = ctx.attr("rank"), find_group(ctx).rank
    if wanted not in {-1, rank}:
        raise DistError(
            "dist.shard: a program with sharded states must run on the rank that built "
            f"it ({wanted}), got rank {rank}; save the program with "
            "opwright_nn.checkpoint.save, or with opwright_dist.whole_program and gather_state"
        )
    _shard_shape(ctx)


SHARD = add_group(
    OpMaker("dist.shard")
    .add_comment("The part of a tensor that belongs to this process, without communication.")
    .add_input("x", "any shape, equal on all processes")
    .dtypes(*DTYPES)
    .add_output("out", "flat, dtype of x: a shard of its elements, padded with zeros")
    .same_dtype_as("x")
    .add_attr("rank", int, "rank of the process that can run it; -1 for any")
    .default(-1)
    .at_least(-1)
).build(infer_shape=_own_shard_shape, gradient=_UPDATES)


REDUCE_SHARD = (
    add_group(
        add_reduction(
            OpMaker("dist.reduce_shard")
            .add_comment(
                "Elementwise reduction over all processes, of which each process receives "
                "its dist.shard. It is bitwise identical to dist.all_reduce."
            )
            .add_input("x", "any shape, equal on all processes")
            .dtypes(*DTYPES)
            .add_input("rows", "at least 1-d; its length is the number of examples of a process")
            .as_optional()
            .as_shape_only()
            .add_output("out", "flat, dtype of x: a shard of the elements, padded with zeros")
            .same_dtype_as("x")
        )
    )
    .add_attr("unequal_rows", str, "as for dist.all_reduce")
    .default("refuse")
    .one_of("refuse", "weight")
    .build(infer_shape=_shard_shape, gradient=_UPDATES, effect=True)
)


def _unshard_shape(ctx: InferContext) -> None:
    """Check that x is as long as a shard of `like`, and give the output the shape of `like`."""
    ctx.require_shape("x", (_length_for(ctx, "like"),))
    ctx.set_output("out", ctx.input("like").shape)


UNSHARD = add_group(
    OpMaker("dist.unshard")
    .add_comment("Gathers the shards of all processes into the complete tensor.")
    .add_input("x", "flat, the shard of this process")
    .dtypes(*DTYPES)
    .add_input("like", "any shape, dtype of x")
    .as_shape_only()
    .same_dtype_as("x")
    .add_output("out", "shape of like, dtype of x")
    .same_dtype_as("x")
).build(infer_shape=_unshard_shape, gradient=_UPDATES, effect=True)


def _states_shape(ctx: InferContext) -> None:
    """Check that each x is as long as a shard of `like`."""
    ctx.require_shape("x", (_length_for(ctx, "like"),))


def _no_body(b: BodyContext) -> None:
    """Emit nothing, since the operator is only a marker."""


SHARD_STATES = add_group(
    OpMaker("dist.shard_states")
    .add_comment(
        "Marks variables as shards of the states of a parameter, which are gathered when "
        "saved and split when loaded. It does not compute anything."
    )
    .add_input("x", "the states, flat")
    .as_duplicable()
    .as_shape_only()
    .add_input("gradient", "it marks a training step")
    .as_shape_only()
    .add_input("like", "the parameter")
    .as_shape_only()
).build(infer_shape=_states_shape, body=_no_body, gradient=_UPDATES)


def _every_body(b: BodyContext) -> None:
    number = b.emit("cast", {"x": b.input("x")}, attrs={"dtype": "int32"})
    attrs = {"reduce": "min", "group": b.attr("group")}
    least = b.emit("dist.all_reduce", {"x": number}, attrs=attrs)
    b.emit("cast", {"x": least}, {"out": b.output("out")}, attrs={"dtype": "bool"})


EVERY = add_group(
    OpMaker("dist.every")
    .add_comment("Elementwise logical and of x over all processes.")
    .add_input("x", "bool, any shape, equal on all processes")
    .dtypes("bool")
    .add_output("out", "bool, shape of x")
    .dtypes("bool")
).build(infer_shape=same_shape, body=_every_body, gradient=_UPDATES)
