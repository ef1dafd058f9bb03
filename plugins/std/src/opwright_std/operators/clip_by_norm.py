"""Clip gradients by norm, separately or by their common norm."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from opwright.op import InferContext, OpMaker, no_gradient, same_shape_as
from opwright_std.numerics.dtypes import FLOATS, Array

NO_GRADIENT = no_gradient("it clips gradients before an update, at the end of a training step")


def _norm_of(tensors: Sequence[Array]) -> float:
    # The norm is computed in float64, since squares of float32 might overflow.
    return math.sqrt(sum(float(np.sum(np.square(x, dtype=np.float64))) for x in tensors))


def _factor_of(norm: float, max_norm: float) -> float:
    """Return the scaling factor of the gradients; exactly 1 if the norm is within the bound."""
    return 1.0 if norm <= max_norm else max_norm / norm


def clip_by_norm(x: Array, out: Array, *, max_norm: float) -> None:
    np.multiply(x, _factor_of(_norm_of([x]), max_norm), out=out)


def clip_by_global_norm(
    x: Sequence[Array], out: Sequence[Array], norm: Array, *, max_norm: float
) -> None:
    length = _norm_of(x)
    norm[...] = length
    factor = _factor_of(length, max_norm)
    for source, target in zip(x, out, strict=True):
        np.multiply(source, factor, out=target)


CLIP_BY_NORM = (
    OpMaker("clip_by_norm")
    .add_comment(
        "Clips x to the norm max_norm, |x| = sqrt(sum(x**2)), out = x * max_norm / max(|x|, "
        "max_norm): x itself if its norm is within the bound."
    )
    .add_input("x", "float, any shape")
    .dtypes(*FLOATS)
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .add_attr("max_norm", float, "upper bound of the norm of out")
    .required()
    .greater_than(0.0)
    .build(infer_shape=same_shape_as("x"), gradient=NO_GRADIENT)
)


def _clip_all_shape(ctx: InferContext) -> None:
    """Each output has the shape of its input; the norm is a scalar."""
    metas = ctx.inputs("x")
    ctx.set_metas("out", metas)
    ctx.set_output("norm", ())


def _count_outputs(ctx: InferContext) -> int:
    return len(ctx.inputs("x"))


CLIP_BY_GLOBAL_NORM = (
    OpMaker("clip_by_global_norm")
    .add_comment(
        "Clips several tensors to a common norm, norm = sqrt(sum(x[0]**2) + sum(x[1]**2) + "
        "...), out[i] = x[i] * max_norm / max(norm, max_norm), which keeps their proportions. "
        "Pascanu et al., 2013."
    )
    .add_input("x", "list of float tensors of any shapes and one dtype")
    .as_duplicable()
    .dtypes(*FLOATS)
    .same_dtype_as("x")
    .add_output("out", "shape and dtype of each input")
    .as_duplicable()
    .same_dtype_as("x")
    .add_output("norm", "[], the norm before clipping")
    .same_dtype_as("x")
    .add_attr("max_norm", float, "upper bound of the common norm of all outputs")
    .required()
    .greater_than(0.0)
    .build(infer_shape=_clip_all_shape, gradient=NO_GRADIENT, count_outputs=_count_outputs)
)
