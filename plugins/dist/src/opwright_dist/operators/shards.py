"""dist.shard, dist.reduce_shard and dist.unshard: tensors divided evenly among processes.

A shard is flat. The elements of a tensor, in the order of its memory, are divided into parts of
equal length, one per process, padded with zeros.
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
"""Shard lengths are a multiple of this: complete cache lines, as in the kernels."""

_UPDATES: Final = no_gradient("it is for gradients and parameters, after the backward operators")


def shard_length(shape: Shape, n_processes: int) -> int:
    """Return the length of each process's shard; -1 if `shape` is unknown."""
    if -1 in shape:
        return -1
    lines = -(-numel(shape) // (LINE * n_processes))
    return LINE * lines


def _length_for(ctx: InferContext, slot: str) -> int:
    return shard_length(ctx.input(slot).shape, find_group(ctx).size)


def _shard_shape(ctx: InferContext) -> None:
    """The output is flat: the elements divided by the number of processes, rounded up."""
    ctx.set_output("out", (_length_for(ctx, "x"),))


def _own_shard_shape(ctx: InferContext) -> None:
    """The shape rule of any shard; refuses a file with the states of the process that saved it."""
    wanted, rank = ctx.attr("rank"), find_group(ctx).rank
    if wanted not in {-1, rank}:
        raise DistError(
            f"dist.shard: a program with states in parts must run where it was built, on rank "
            f"{wanted}, got rank {rank}; save it by opwright_nn.checkpoint.save, or "
            "opwright_dist.whole_program with gather_state"
        )
    _shard_shape(ctx)


SHARD = add_group(
    OpMaker("dist.shard")
    .add_comment("The part of a tensor that belongs to this process, without communication.")
    .add_input("x", "any shape, equal on all processes")
    .dtypes(*DTYPES)
    .add_output("out", "flat, dtype of x: a part of its elements, padded with zeros")
    .same_dtype_as("x")
    .add_attr("rank", int, "rank of the process that may run it; -1: any")
    .default(-1)
    .at_least(-1)
).build(infer_shape=_own_shard_shape, gradient=_UPDATES)


REDUCE_SHARD = (
    add_group(
        add_reduction(
            OpMaker("dist.reduce_shard")
            .add_comment(
                "Element-wise reduction over all processes, of which each receives the part of "
                "dist.shard. It is bitwise identical to dist.all_reduce."
            )
            .add_input("x", "any shape, equal on all processes")
            .dtypes(*DTYPES)
            .add_input("rows", "at least 1-d; its length is the number of examples of a process")
            .as_optional()
            .as_shape_only()
            .add_output("out", "flat, dtype of x: a part of the elements, padded with zeros")
            .same_dtype_as("x")
        )
    )
    .add_attr("unequal_rows", str, "as of dist.all_reduce")
    .default("refuse")
    .one_of("refuse", "weight")
    .build(infer_shape=_shard_shape, gradient=_UPDATES, effect=True)
)


def _unshard_shape(ctx: InferContext) -> None:
    """The output has the shape of like; x is a shard of it."""
    ctx.require_shape("x", (_length_for(ctx, "like"),))
    ctx.set_output("out", ctx.input("like").shape)


UNSHARD = add_group(
    OpMaker("dist.unshard")
    .add_comment("Gathers the shards of all processes into the whole tensor.")
    .add_input("x", "flat, the shard of this process")
    .dtypes(*DTYPES)
    .add_input("like", "of any shape and the dtype of x")
    .as_shape_only()
    .same_dtype_as("x")
    .add_output("out", "shape of like, dtype of x")
    .same_dtype_as("x")
).build(infer_shape=_unshard_shape, gradient=_UPDATES, effect=True)


def _states_shape(ctx: InferContext) -> None:
    """Each x has the length of a shard of like."""
    ctx.require_shape("x", (_length_for(ctx, "like"),))


def _no_body(b: BodyContext) -> None:
    """It is a marker without a computation."""


SHARD_STATES = add_group(
    OpMaker("dist.shard_states")
    .add_comment(
        "Marks variables as shards of a parameter's states: they are gathered when saved, and "
        "partitioned when loaded. It computes nothing."
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
    .add_comment("Element-wise, whether x is true on every process.")
    .add_input("x", "bool, any shape, equal on all processes")
    .dtypes("bool")
    .add_output("out", "bool, shape of x")
    .dtypes("bool")
).build(infer_shape=same_shape, body=_every_body, gradient=_UPDATES)
