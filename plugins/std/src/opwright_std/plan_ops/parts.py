"""Random operators on a part of a larger tensor, which draw the same numbers for any split.

A pass for training with several processes replaces `dropout` and `bernoulli` by the operator of the
same name with the suffix ``_part``.
"""

from __future__ import annotations

from opwright.op import InferContext, OpMaker, format_shape
from opwright_std.numerics.dtypes import FLOATS, Array
from opwright_std.numerics.philox import words_of_part
from opwright_std.operators.dropout import apply_mask
from opwright_std.operators.random import add_seed
from opwright_std.operators.random_integers import draw_ones


def _add_part(maker: OpMaker) -> OpMaker:
    return (
        maker.add_input("part", "int64 [3]: rows before this part, its own rows, and all rows")
        .dtypes("int64")
        .add_attr("axis", int, "the split axis; its length is a multiple of the own rows")
        .required()
        .at_least(0)
    )


def _check_part(ctx: InferContext) -> tuple[int, ...]:
    """Return the shape of x."""
    shape, axis = ctx.input("x").shape, ctx.attr("axis")
    ctx.require_shape("part", (3,))
    ctx.require(axis < len(shape), f"axis must be an axis of x {format_shape(shape)}, got {axis}")
    return shape


def dropout_part(
    x: Array,
    step: Array | None,
    part: Array,
    out: Array,
    mask: Array,
    *,
    axis: int,
    probability: float,
    seed: int,
    stream: int | None = None,
) -> None:
    words = words_of_part(x.shape, axis, part.tolist(), seed, stream, step)
    apply_mask(x, words, out, mask, probability)


def _dropout_shape(ctx: InferContext) -> None:
    """Every output has the shape of x."""
    shape = _check_part(ctx)
    ctx.set_output("out", shape)
    ctx.set_output("mask", shape)


DROPOUT_PART = (
    _add_part(
        add_seed(
            OpMaker("std.dropout_part")
            .add_comment(
                "dropout in training of a part of a larger tensor: its elements use the same "
                "words of Philox 4x32-10 as in the larger one."
            )
            .add_input("x", "any shape, float")
            .dtypes(*FLOATS)
        )
    )
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .add_output("mask", "shape of x, true where an element is kept")
    .dtypes("bool")
    .add_attr("probability", float, "probability of dropping an element")
    .required()
    .between(0.0, 1.0)
    .build(infer_shape=_dropout_shape, random=True, plan_only=True)
)


def bernoulli_part(
    x: Array,
    step: Array | None,
    part: Array,
    out: Array,
    *,
    axis: int,
    seed: int,
    stream: int | None = None,
) -> None:
    draw_ones(x, words_of_part(x.shape, axis, part.tolist(), seed, stream, step), out)


def _bernoulli_shape(ctx: InferContext) -> None:
    """The output has the shape of x."""
    ctx.set_output("out", _check_part(ctx))


BERNOULLI_PART = (
    _add_part(
        add_seed(
            OpMaker("std.bernoulli_part")
            .add_comment(
                "bernoulli of a part of a larger tensor: its elements use the same words of "
                "Philox 4x32-10 as in the larger one."
            )
            .add_input("x", "any shape, float, probabilities in [0, 1]")
            .dtypes(*FLOATS)
        )
    )
    .add_output("out", "0 and 1, shape and dtype of x")
    .same_dtype_as("x")
    .build(infer_shape=_bernoulli_shape, random=True, plan_only=True)
)
