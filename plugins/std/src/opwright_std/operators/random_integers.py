"""bernoulli, randint and permutation: random integers, equal on every device."""

from __future__ import annotations

import numpy as np

from opwright.op import INT_DTYPES, BodyContext, InferContext, OpMaker, no_gradient, same_shape_as
from opwright_std.numerics.dtypes import FLOATS, INDICES, Array
from opwright_std.numerics.philox import multiply_high, random_long_words, random_words
from opwright_std.operators.random import add_seed

_NO_GRADIENT = no_gradient("random integers are not continuous")


def bernoulli(
    x: Array, step: Array | None, out: Array, *, seed: int, stream: int | None = None
) -> None:
    draw_ones(x, random_words(x.size, seed, stream, step).reshape(x.shape), out)


def draw_ones(x: Array, words: Array, out: Array) -> None:
    """Write 1 where the random word is below the probability's threshold, otherwise 0."""
    chance = x.astype(np.float64)
    wrong = ~((chance >= 0) & (chance <= 1))
    if wrong.any():
        raise ValueError(f"bernoulli: x must be in [0, 1], got {chance[wrong][0]}")
    out[...] = words < np.floor(chance * 2.0**32)


BERNOULLI = add_seed(
    OpMaker("bernoulli")
    .add_comment(
        "Random zeros and ones, 1 with probability x: if the element's word of Philox 4x32-10 "
        "(Salmon et al., 2011) is below floor(x * 2**32)."
    )
    .add_input("x", "any shape, float, probabilities in [0, 1]")
    .dtypes(*FLOATS)
    .add_output("out", "0 and 1, shape and dtype of x")
    .same_dtype_as("x")
).build(infer_shape=same_shape_as("x"), gradient=_NO_GRADIENT, random=True)


def randint(
    step: Array | None,
    out: Array,
    *,
    low: int,
    high: int,
    seed: int,
    stream: int | None = None,
    **_: object,
) -> None:
    words = random_long_words(out.size, seed, stream, step)
    numbers = multiply_high(words, high - low) + np.uint64(low % 2**64)
    out[...] = numbers.astype(out.dtype).reshape(out.shape)


def _randint_shape(ctx: InferContext) -> None:
    """The output has the given shape; its dtype must represent the range."""
    low, high, dtype = ctx.attr("low"), ctx.attr("high"), ctx.attr("dtype")
    ctx.require(low < high, f"low must be below high, got low={low}, high={high}")
    info = np.iinfo(dtype)
    if low < info.min or high - 1 > info.max:
        ctx.fail(f"{dtype} must represent low to high - 1, got low={low}, high={high}; use int64")
    ctx.set_output("out", ctx.attr("shape"))


RANDINT = add_seed(
    OpMaker("randint")
    .add_comment(
        "Random integers in [low, high), out = low + floor(w * (high - low) / 2**64) with w "
        "the 64-bit words of Philox 4x32-10 (Salmon et al., 2011)."
    )
    .add_output("out", "the given shape and dtype")
    .same_dtype_as("dtype")
    .add_attr("shape", list[int], "shape of out")
    .as_shape_operand()
    .required()
    .at_least(0)
    .add_attr("low", int, "the least number")
    .default(0)
    .add_attr("high", int, "the end, which is excluded")
    .required()
    .add_attr("dtype", str, "dtype of out")
    .default("int64")
    .as_dtype(*INT_DTYPES)
    .dispatch_on("dtype")
).build(infer_shape=_randint_shape, gradient=_NO_GRADIENT, random=True)


def _permutation_shape(ctx: InferContext) -> None:
    """The output has n elements."""
    ctx.set_output("out", (ctx.attr("n"),))


def _permutation_body(b: BodyContext) -> None:
    n, out = b.attr("n"), b.output("out")
    if n < 2:  # nothing to draw
        b.emit("fill", {}, {"out": out}, {"shape": [n], "value": 0.0, "dtype": b.attr("dtype")})
        return
    attrs = {"shape": [n], "min": 0.0, "max": 1.0, "dtype": "float64"}
    keys = b.emit("uniform", {}, attrs=attrs)
    order = b.emit_multi("top_k", {"x": keys}, attrs={"k": n, "largest": False})["indices"]
    b.emit("cast", {"x": order}, {"out": out}, {"dtype": b.attr("dtype")})


PERMUTATION = add_seed(
    OpMaker("permutation")
    .add_comment(
        "The numbers from 0 to n - 1 in random order: the stable sort order of n uniform float64 "
        "numbers from Philox 4x32-10 (Salmon et al., 2011)."
    )
    .add_output("out", "[n], of the given dtype")
    .same_dtype_as("dtype")
    .add_attr("n", int, "how many numbers")
    .as_shape_operand()
    .required()
    .between(0, 2**31 - 1)
    .add_attr("dtype", str, "dtype of out")
    .default("int64")
    .as_dtype(*INDICES)
    .dispatch_on("dtype")
).build(infer_shape=_permutation_shape, gradient=_NO_GRADIENT, body=_permutation_body, random=True)
