"""Operators created only by passes: two-step reductions, `compare_plans` and `part`."""

from __future__ import annotations

from opwright.op import InferContext, OpMaker
from opwright_dist.operators.description import DTYPES, add_group, add_reduction, find_group


def start_shape(ctx: InferContext) -> None:
    """Declare the handle, an integer that the wait operator reads."""
    find_group(ctx)
    ctx.set_output("handle", [1])


ALL_REDUCE_START = (
    add_group(
        add_reduction(
            OpMaker("dist.all_reduce_start")
            .add_comment(
                "Copies tensors into one bucket and starts its reduction over the "
                "processes; the memory of x can be reused afterwards. With rows and "
                "unequal_rows='weight', a mean is weighted by the number of rows of each "
                "process."
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
    .add_attr("unequal_rows", str, "as for dist.all_reduce")
    .default("refuse")
    .one_of("refuse", "weight")
    .build(infer_shape=start_shape, effect=True, plan_only=True)
)


def _wait_shape(ctx: InferContext) -> None:
    """Give the outputs the shapes of the inputs x."""
    ctx.set_outputs("out", [meta.shape for meta in ctx.inputs("x")])


ALL_REDUCE_WAIT = (
    OpMaker("dist.all_reduce_wait")
    .add_comment(
        "Waits for a reduction that dist.all_reduce_start started, and writes its results."
    )
    .add_input("x", "the tensors passed to dist.all_reduce_start")
    .as_duplicable()
    .as_shape_only()
    .dtypes(*DTYPES)
    .same_dtype_as("x")
    .add_input("handle", "int64 [1], from dist.all_reduce_start")
    .dtypes("int64")
    .add_output("out", "shapes and dtype of the tensors x")
    .as_duplicable()
    .same_dtype_as("x")
    .build(infer_shape=_wait_shape, effect=True, plan_only=True)
)


def _part_shape(ctx: InferContext) -> None:
    """Declare the three integers that describe the part; random operators for parts read them."""
    find_group(ctx)
    ctx.set_output("part", [3])


PART = (
    add_group(
        OpMaker("dist.part")
        .add_comment(
            "The position of this process's rows in the whole batch, in rank order: the "
            "number of rows before them, of own rows, and of all rows. With "
            "unequal_rows='weight' the processes exchange their row counts; otherwise the "
            "counts must be equal."
        )
        .add_input("rows", "at least 1-d; its length is the number of examples of a process")
        .as_shape_only()
        .add_output("part", "int64 [3], for the random operators for parts")
        .dtypes("int64")
    )
    .add_attr("unequal_rows", str, "as for dist.all_reduce")
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
    """Declare no output."""
    find_group(ctx)


COMPARE_PLANS = add_group(
    OpMaker("dist.compare_plans")
    .add_comment(
        "Starts to compare the program and the collectives of this plan with the other "
        "processes. The first collective waits for the result before any data is sent, "
        "and its error names the first operator that differs."
    )
    .add_attr("entries", list[str], "the program and the collectives of the group, as strings")
    .required()
    .add_attr("digest", int, "63 bits of the SHA-256 of entries")
    .required()
    .add_attr("dtype", str, "selects the kernel")
    .default("int64")
    .as_dtype("int64")
    .dispatch_on("dtype")
).build(infer_shape=_no_shape, effect=True, plan_only=True)
