"""Operators created by passes: reductions in two steps, a comparison, the part of a process."""

from __future__ import annotations

from opwright.op import InferContext, OpMaker
from opwright_dist.operators.description import DTYPES, add_group, add_reduction, find_group


def start_shape(ctx: InferContext) -> None:
    """The handle is one integer, read by the wait operator."""
    find_group(ctx)
    ctx.set_output("handle", [1])


ALL_REDUCE_START = (
    add_group(
        add_reduction(
            OpMaker("dist.all_reduce_start")
            .add_comment(
                "Copies tensors into one bucket and starts its reduction over the processes; the "
                "x are free afterwards. With rows and unequal_rows='weight' a mean is weighted by "
                "the number of rows of each process."
            )
            .add_input("x", "the tensors of the bucket, of one dtype")
            .as_duplicable()
            .dtypes(*DTYPES)
            .same_dtype_as("x")
            .add_input("rows", "at least 1-d; its length is the number of examples of a process")
            .as_optional()
            .as_shape_only()
            .add_output("handle", "int64 [1], for dist.all_reduce_wait")
            .dtypes("int64")
        )
    )
    .add_attr("unequal_rows", str, "as of dist.all_reduce")
    .default("refuse")
    .one_of("refuse", "weight")
    .build(infer_shape=start_shape, effect=True, plan_only=True)
)


def _wait_shape(ctx: InferContext) -> None:
    """The outputs have the shapes of the x."""
    ctx.set_outputs("out", [meta.shape for meta in ctx.inputs("x")])


ALL_REDUCE_WAIT = (
    OpMaker("dist.all_reduce_wait")
    .add_comment("Waits for a reduction started by dist.all_reduce_start, and writes its results.")
    .add_input("x", "the tensors passed to dist.all_reduce_start")
    .as_duplicable()
    .as_shape_only()
    .dtypes(*DTYPES)
    .same_dtype_as("x")
    .add_input("handle", "int64 [1], from dist.all_reduce_start")
    .dtypes("int64")
    .add_output("out", "shapes and dtype of the x")
    .as_duplicable()
    .same_dtype_as("x")
    .build(infer_shape=_wait_shape, effect=True, plan_only=True)
)


def _part_shape(ctx: InferContext) -> None:
    """The part is described by three integers, which random operators of parts read."""
    find_group(ctx)
    ctx.set_output("part", [3])


PART = (
    add_group(
        OpMaker("dist.part")
        .add_comment(
            "The rows of this process in the whole batch, in rank order: rows before, own rows, "
            "and all rows. With unequal_rows='weight' the processes exchange their numbers, "
            "otherwise they are equal."
        )
        .add_input("rows", "at least 1-d; its length is the number of examples of a process")
        .as_shape_only()
        .add_output("part", "int64 [3], for the random operators of parts")
        .dtypes("int64")
    )
    .add_attr("unequal_rows", str, "as of dist.all_reduce")
    .default("refuse")
    .one_of("refuse", "weight")
    .add_attr("seeds", list[int], "seed of the random operators, equal on all processes")
    .required()
    .add_attr("dtype", str, "selects the kernel")
    .default("int64")
    .as_dtype("int64")
    .dispatch_on("dtype")
    .build(infer_shape=_part_shape, effect=True, plan_only=True)
)


def _no_shape(ctx: InferContext) -> None:
    """The operator has no output."""
    find_group(ctx)


COMPARE_PLANS = add_group(
    OpMaker("dist.compare_plans")
    .add_comment(
        "Starts to compare the program and the collectives of this plan with those of the other "
        "processes; the first collective waits for the result before any data moves, and names "
        "the first operator that differs."
    )
    .add_attr("entries", list[str], "the program and the collectives of the group, as text")
    .required()
    .add_attr("digest", int, "63 bits of the SHA-256 of entries")
    .required()
    .add_attr("dtype", str, "selects the kernel")
    .default("int64")
    .as_dtype("int64")
    .dispatch_on("dtype")
).build(infer_shape=_no_shape, effect=True, plan_only=True)
