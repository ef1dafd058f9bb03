"""What passes make of collectives: reductions in two steps, a comparison, the part of a process."""

from __future__ import annotations

from opwright.op import InferContext, OpMaker
from opwright_dist.operators.description import DTYPES, add_group, add_reduction, find_group


def _start_shape(ctx: InferContext) -> None:
    """One number, which the operator that waits reads."""
    find_group(ctx)
    ctx.set_output("handle", [1])


ALL_REDUCE_START = (
    add_group(
        add_reduction(
            OpMaker("dist.all_reduce_start")
            .add_comment(
                "Copy tensors into one bucket and start to reduce it over the processes; the x are "
                "not needed any more. With rows and unequal_rows='weight' a mean is weighted by "
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
    .build(infer_shape=_start_shape, effect=True, plan_only=True)
)


def _wait_shape(ctx: InferContext) -> None:
    """The outputs have the shapes of the x."""
    ctx.set_outputs("out", [meta.shape for meta in ctx.inputs("x")])


ALL_REDUCE_WAIT = (
    OpMaker("dist.all_reduce_wait")
    .add_comment("Wait for a reduction that dist.all_reduce_start began, and write its results.")
    .add_input("x", "the tensors that were given to dist.all_reduce_start")
    .as_duplicable()
    .as_shape_only()
    .dtypes(*DTYPES)
    .same_dtype_as("x")
    .add_input("handle", "int64 [1], of dist.all_reduce_start")
    .dtypes("int64")
    .add_output("out", "shapes and dtype of the x")
    .as_duplicable()
    .same_dtype_as("x")
    .build(infer_shape=_wait_shape, effect=True, plan_only=True)
)


def _part_shape(ctx: InferContext) -> None:
    """Three numbers, which random operators of parts read."""
    find_group(ctx)
    ctx.set_output("part", [3])


PART = (
    add_group(
        OpMaker("dist.part")
        .add_comment(
            "Which rows of the whole batch are those of this process, in the order of ranks: how "
            "many lie before, how many are its own, and how many there are. With "
            "unequal_rows='weight' the processes tell one another, otherwise all have as many."
        )
        .add_input("rows", "at least 1-d; its length is the number of examples of a process")
        .as_shape_only()
        .add_output("part", "int64 [3], for the random operators of parts")
        .dtypes("int64")
    )
    .add_attr("unequal_rows", str, "as of dist.all_reduce")
    .default("refuse")
    .one_of("refuse", "weight")
    .add_attr("seeds", list[int], "of the random operators, which must be equal on all processes")
    .required()
    .add_attr("dtype", str, "selects the kernel")
    .default("int64")
    .as_dtype("int64")
    .dispatch_on("dtype")
    .build(infer_shape=_part_shape, effect=True, plan_only=True)
)


def _no_shape(ctx: InferContext) -> None:
    """There is no output."""
    find_group(ctx)


COMPARE_PLANS = add_group(
    OpMaker("dist.compare_plans")
    .add_comment(
        "Begin to compare the program and the collectives of this plan with those of the other "
        "processes; the first collective waits for the answer, before any data moves, and names "
        "the first operator that differs."
    )
    .add_attr("entries", list[str], "the program and the collectives of the group, in words")
    .required()
    .add_attr("digest", int, "63 bits of the SHA-256 of entries")
    .required()
    .add_attr("dtype", str, "selects the kernel")
    .default("int64")
    .as_dtype("int64")
    .dispatch_on("dtype")
).build(infer_shape=_no_shape, effect=True, plan_only=True)
