"""Dropout: zero random elements in training, and scale the remaining elements."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext, OpMaker, grad_op, same_again
from opwright_std.numerics.dtypes import FLOATS, Array
from opwright_std.numerics.philox import random_words
from opwright_std.operators.random import add_seed


def _keep_scale(probability: float) -> float:
    return 1.0 / (1.0 - probability) if probability < 1.0 else 0.0


def dropout(
    x: Array,
    step: Array | None,
    out: Array,
    mask: Array,
    *,
    probability: float,
    training: bool,
    seed: int,
    stream: int | None = None,
) -> None:
    if not training:
        mask[...] = True
        np.copyto(out, x)
        return
    words = random_words(x.size, seed, stream, step).reshape(x.shape)
    apply_mask(x, words, out, mask, probability)


def apply_mask(x: Array, words: Array, out: Array, mask: Array, probability: float) -> None:
    """Zero the elements whose random words are below a threshold, and scale all other elements."""
    # Comparing integers yields the same mask on all devices; 2^32 (probability 1) drops all.
    np.greater_equal(words, int(probability * 2**32), out=mask)
    np.multiply(x, _keep_scale(probability), out=out, where=mask)
    np.copyto(out, 0, where=~mask)


def dropout_grad(
    mask: Array,
    out_grad: Array,
    x_grad: Array,
    *,
    probability: float,
    training: bool,
    **_: object,
) -> None:
    if not training:
        np.copyto(x_grad, out_grad)
        return
    np.multiply(out_grad, _keep_scale(probability), out=x_grad, where=mask)
    np.copyto(x_grad, 0, where=~mask)


def _dropout_shape(ctx: InferContext) -> None:
    """Every output has the shape of x."""
    ctx.set_output("out", ctx.input("x").shape)
    ctx.set_output("mask", ctx.input("x").shape)


DROPOUT = add_seed(
    OpMaker("dropout")
    .add_comment(
        "Dropout with inverted scaling. In training, out = mask * x / (1 - probability), with "
        "element i kept if word i of Philox 4x32-10 is at least floor(probability * 2^32); "
        "a dropped element is 0, whatever x is. Otherwise out = x. Srivastava et al., 2014."
    )
    .add_input("x", "any shape, float")
    .dtypes(*FLOATS)
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .add_output("mask", "shape of x, true where an element is kept")
    .dtypes("bool")
    .as_intermediate()
    .add_attr("probability", float, "probability of dropping an element")
    .default(0.5)
    .between(0.0, 1.0)
    .add_attr("training", bool, "whether to drop elements")
    .default(False)
).build(
    infer_shape=_dropout_shape,
    gradient=grad_op("dropout_grad", needs=["mask"], gradient=same_again),
    random=True,
)
