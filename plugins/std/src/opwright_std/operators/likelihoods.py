"""Negative log-likelihoods under the normal and the Poisson distribution."""

from __future__ import annotations

import math

from opwright.op import (
    BodyContext,
    InferContext,
)
from opwright_std.compositions.expression import Expression, in_float32, read
from opwright_std.numerics.broadcasting import require_broadcast
from opwright_std.operators.mse import pointwise_loss, same_shapes

_OBSERVATIONS = "shape and dtype of x: the observations"


def _gaussian_shape(ctx: InferContext) -> None:
    """The output has the shape of x and label, to which the variance broadcasts."""
    shape = ctx.input("x").shape
    require_broadcast(ctx, "variance", shape)
    ctx.require_shape("label", shape)
    ctx.set_output("out", shape)


def _gaussian_nll(b: BodyContext) -> Expression:
    variance = read(b, "variance").then("clip", min=float(b.attr("eps")))
    distance = read(b, "x") - read(b, "label")
    loss = (distance / variance * distance + variance.then("log")) * 0.5
    return loss + 0.5 * math.log(2 * math.pi) if b.attr("full") else loss


GAUSSIAN_NLL = (
    pointwise_loss(
        "gaussian_nll",
        "Negative log-likelihood of a normal distribution, out = (ln(v) + (x - label)**2 / v) / 2 "
        "with v the variance, at least eps; full adds ln(2 pi) / 2.",
        "float, any shape: means",
        _OBSERVATIONS,
    )
    .add_input("variance", "broadcasts to x")
    .same_dtype_as("x")
    .add_attr("eps", float, "lower bound of the variance, below which it has no gradient")
    .default(1e-6)
    .greater_than(0.0)
    .add_attr("full", bool, "whether to add the constant")
    .default(False)
    .build(infer_shape=_gaussian_shape, body=in_float32(_gaussian_nll))
)


def _poisson_nll(b: BodyContext) -> Expression:
    x, label = read(b, "x"), read(b, "label")
    if b.attr("log_input"):
        loss = x.then("exp") - label * x
    else:
        loss = x - label * (x + float(b.attr("eps"))).then("log")
    if not b.attr("full"):
        return loss
    # Stirling's approximation of ln(label!).
    is_many = label.compare("greater", 1.0)
    many = is_many.choose(label, label.filled(1.0))
    stirling = many * many.then("log") - many + (many * (2 * math.pi)).then("log") * 0.5
    return loss + is_many.choose(stirling, label.filled(0.0))


POISSON_NLL = (
    pointwise_loss(
        "poisson_nll",
        "Negative log-likelihood of a Poisson distribution, out = exp(x) - label * x for "
        "log-rates x, or x - label * ln(x + eps) for rates; full adds Stirling's approximation of "
        "ln(label!) where label > 1.",
        "float, any shape: logarithms of rates, or rates",
        _OBSERVATIONS,
    )
    .add_attr("log_input", bool, "whether x contains logarithms")
    .default(True)
    .add_attr("eps", float, "added to rates")
    .default(1e-8)
    .at_least(0.0)
    .add_attr("full", bool, "whether to add ln(label!)")
    .default(False)
    .build(infer_shape=same_shapes, body=in_float32(_poisson_nll))
)
