"""One of two blocks runs, as a condition says."""

from __future__ import annotations

from opwright.op import BLOCK, Branch, InferContext, Meta, OpMaker, merge_dims, shapes_match


def _cond_shape(ctx: InferContext) -> None:
    """The outputs have the shapes that both blocks give, which must agree."""
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
    """Return what is known of a value that comes from either block."""
    if true.dtype != false.dtype or not shapes_match(true.shape, false.shape):
        ctx.fail(f"both blocks must give one shape and dtype, got {true} and {false}")
    return Meta(tuple(map(merge_dims, true.shape, false.shape)), true.dtype)


# Core differentiates every branch: a branch over the gradients of its blocks.
COND = (
    OpMaker("cond")
    .add_comment(
        "out = true_outputs of true_block where condition holds, else false_outputs of "
        "false_block; only that block runs."
    )
    .add_input("condition", "bool of one element")
    .dtypes("bool")
    .add_input("x", "the outer variables that the blocks read; found where not given")
    .as_duplicable()
    .as_optional()
    .add_output("out", "what the block that ran gives, one variable for each of its outputs")
    .as_duplicable()
    .add_attr("true_block", BLOCK, "runs where condition holds")
    .required()
    .add_attr("false_block", BLOCK, "runs where it does not")
    .required()
    .add_attr("true_outputs", list[str], "variables that leave true_block")
    .required()
    .add_attr("false_outputs", list[str], "those of false_block, of the same shapes and dtypes")
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
