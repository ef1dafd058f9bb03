"""cond: a condition selects one of two blocks."""

from __future__ import annotations

from opwright.op import BLOCK, Branch, InferContext, Meta, OpMaker, merge_dims, shapes_match


def _cond_shape(ctx: InferContext) -> None:
    """The outputs have the shapes of the blocks' outputs, which must agree."""
    if any(dim not in (1, -1) for dim in ctx.input("condition").shape):
        ctx.fail(f"condition must have one element, got {ctx.input('condition')}")
    true = ctx.block_metas("true_block", ctx.attr("true_outputs"))
    false = ctx.block_metas("false_block", ctx.attr("false_outputs"))
    n_out = ctx.output_count("out")
    if not len(true) == len(false) == n_out:
        ctx.fail(
            f"out must have as many variables as true_outputs and false_outputs, got {n_out} for "
            f"{len(true)} and {len(false)}"
        )
    ctx.set_metas("out", [_merge(ctx, *pair) for pair in zip(true, false, strict=True)])


def _merge(ctx: InferContext, true: Meta, false: Meta) -> Meta:
    """Return the common shape and dtype of a value from either block."""
    if true.dtype != false.dtype or not shapes_match(true.shape, false.shape):
        ctx.fail(f"both blocks must return the same shape and dtype, got {true} and {false}")
    return Meta(tuple(map(merge_dims, true.shape, false.shape)), true.dtype)


# The gradient of a branch, built by the core, is a branch over the gradients of its blocks.
COND = (
    OpMaker("cond")
    .add_comment(
        "out = true_outputs of true_block if condition is true, else false_outputs of "
        "false_block; only that block runs."
    )
    .add_input("condition", "bool of one element")
    .dtypes("bool")
    .add_input("x", "the outer variables that the blocks read; determined if not given")
    .as_duplicable()
    .as_optional()
    .add_output("out", "one variable for each output of the block that ran")
    .as_duplicable()
    .add_attr("true_block", BLOCK, "runs if condition is true")
    .required()
    .add_attr("false_block", BLOCK, "runs if condition is false")
    .required()
    .add_attr("true_outputs", list[str], "outputs of true_block")
    .required()
    .add_attr("false_outputs", list[str], "outputs of false_block, of the same shapes and dtypes")
    .required()
    .build(
        infer_shape=_cond_shape,
        control=Branch(
            "condition",
            "x",
            "out",
            (("true_block", "true_outputs"), ("false_block", "false_outputs")),
        ),
    )
)
