"""Operators created only by passes: two-step reductions to shards and gathering of shards."""

from __future__ import annotations

from opwright.op import InferContext, OpMaker
from opwright_dist.operators.description import DTYPES, add_group, add_reduction, find_group
from opwright_dist.operators.plan_ops import start_shape
from opwright_dist.operators.shards import shard_length


def _add_tensors(maker: OpMaker, comment: str) -> OpMaker:
    return maker.add_input("x", comment).as_duplicable().dtypes(*DTYPES).same_dtype_as("x")


def _add_handle(maker: OpMaker) -> OpMaker:
    return maker.add_output("handle", "int64 [1], for the wait operator").dtypes("int64")


REDUCE_SHARD_START = (
    add_group(
        add_reduction(
            _add_handle(
                _add_tensors(
                    OpMaker("dist.reduce_shard_start").add_comment(
                        "Starts dist.reduce_shard of the tensors of a bucket; the memory "
                        "of x can be reused afterwards."
                    ),
                    "the tensors of the bucket, of one dtype",
                )
                .add_input("rows", "at least 1-d; its length is the number of examples")
                .as_optional()
                .as_shape_only()
            )
        )
    )
    .add_attr("unequal_rows", str, "as for dist.all_reduce")
    .default("refuse")
    .one_of("refuse", "weight")
    .build(infer_shape=start_shape, effect=True, plan_only=True)
)


def _shards_shape(ctx: InferContext) -> None:
    """Give each output the shape of the shard of its input."""
    size = find_group(ctx).size
    ctx.set_outputs("out", [(shard_length(meta.shape, size),) for meta in ctx.inputs("x")])


REDUCE_SHARD_WAIT = add_group(
    _add_tensors(
        OpMaker("dist.reduce_shard_wait").add_comment(
            "Waits for dist.reduce_shard_start, and writes its results."
        ),
        "the tensors passed to dist.reduce_shard_start",
    )
    .as_shape_only()
    .add_input("handle", "int64 [1], from dist.reduce_shard_start")
    .dtypes("int64")
    .add_output("out", "their shards")
    .as_duplicable()
    .same_dtype_as("x")
).build(infer_shape=_shards_shape, effect=True, plan_only=True)


UNSHARD_START = add_group(
    _add_handle(
        _add_tensors(
            OpMaker("dist.unshard_start").add_comment(
                "Starts dist.unshard of the shards of a bucket; the memory of x can be "
                "reused afterwards."
            ),
            "the shards of the bucket, of one dtype",
        )
    )
).build(infer_shape=start_shape, effect=True, plan_only=True)


def _whole_shape(ctx: InferContext) -> None:
    """Give the outputs the shapes of the tensors in `like`."""
    ctx.set_outputs("out", [meta.shape for meta in ctx.inputs("like")])


UNSHARD_WAIT = (
    OpMaker("dist.unshard_wait")
    .add_comment("Waits for dist.unshard_start, and writes its results.")
    .add_input("like", "tensors with the shapes of the results")
    .as_duplicable()
    .as_shape_only()
    .dtypes(*DTYPES)
    .same_dtype_as("like")
    .add_input("handle", "int64 [1], from dist.unshard_start")
    .dtypes("int64")
    .add_output("out", "shapes and dtype of the tensors like")
    .as_duplicable()
    .same_dtype_as("like")
    .build(infer_shape=_whole_shape, effect=True, plan_only=True)
)
