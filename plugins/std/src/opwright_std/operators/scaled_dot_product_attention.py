"""Attention: means of values weighted by the softmax of query-key products."""

from __future__ import annotations

import math

import numpy as np

from opwright.op import (
    InferContext,
    OpMaker,
    Shape,
    dims_match,
    format_shape,
    grad_op,
    merge_dims,
    shapes_match,
)
from opwright_std.compositions.attention import ATTENTION, attention_body
from opwright_std.numerics.broadcasting import require_broadcast
from opwright_std.numerics.dtypes import FLOATS, Array


def _repeat_heads(x: Array, q: Array) -> Array:
    """Repeat the heads of keys or values to match the heads of q."""
    if x.ndim < 3 or x.shape[-3] == q.shape[-3]:
        return x
    return np.repeat(x, q.shape[-3] // x.shape[-3], axis=-3)


def _sum_heads(grad: Array, out: Array) -> None:
    """Write the gradient of shared heads, summed over the heads of q that share them."""
    if grad.shape == out.shape:
        np.copyto(out, grad)
        return
    heads = out.shape[-3]
    split = (*grad.shape[:-3], heads, grad.shape[-3] // heads, *grad.shape[-2:])
    np.sum(grad.reshape(split), axis=-3, out=out)


def _scores(q: Array, k: Array, mask: Array | None, causal: bool, scale: float | None) -> Array:
    """Return scale * q @ k^T with the mask; -inf for hidden keys."""
    factor = 1 / math.sqrt(max(q.shape[-1], 1)) if scale is None else scale
    scores = q @ np.swapaxes(_repeat_heads(k, q), -1, -2)
    scores *= q.dtype.type(factor)
    if mask is not None and mask.dtype == np.bool_:
        scores = np.where(mask, scores, -np.inf).astype(q.dtype, copy=False)
    elif mask is not None:  # a hidden key may have a NaN score
        scores = np.where(mask == -np.inf, mask, scores + mask)
    if causal:
        allowed = np.tril(np.ones(scores.shape[-2:], np.bool_))
        scores[..., ~allowed] = -np.inf
    return np.asarray(scores)


def _multiply_seen(weights: Array, x: Array) -> Array:
    """Return weights @ x without reading rows of weight 0: they may be NaN."""
    is_finite = np.isfinite(x)
    if is_finite.all():
        return np.asarray(weights @ x)
    out = np.asarray(weights @ np.where(is_finite, x, x.dtype.type(0)))
    with np.errstate(invalid="ignore"):
        for row in np.flatnonzero(~is_finite.all(axis=(*range(x.ndim - 2), -1))):
            column, other = weights[..., row, None], x[..., row, None, :]
            strange = np.where(np.isfinite(other), x.dtype.type(0), other)
            out += np.where(column != 0, column * strange, x.dtype.type(0))
    return out


def scaled_dot_product_attention(
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None,
    out: Array,
    log_sum_exp: Array,
    *,
    causal: bool,
    scale: float | None = None,
) -> None:
    scores = _scores(q, k, mask, causal, scale)
    highest = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
    highest[highest == -np.inf] = 0  # a fully masked row
    np.exp(scores - highest, out=scores)
    total = np.sum(scores, axis=-1, keepdims=True)
    weights = scores / np.where(total == 0, q.dtype.type(1), total)
    np.copyto(out, _multiply_seen(weights, _repeat_heads(v, q)))
    logarithm = np.full(total.shape, -np.inf, total.dtype)
    np.log(total, out=logarithm, where=total != 0)
    logarithm += highest
    np.copyto(log_sum_exp, logarithm[..., 0])


def scaled_dot_product_attention_grad(
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None,
    out: Array,
    log_sum_exp: Array,
    out_grad: Array,
    q_grad: Array | None,
    k_grad: Array | None,
    v_grad: Array | None,
    *,
    causal: bool,
    scale: float | None = None,
) -> None:
    factor = 1 / math.sqrt(max(q.shape[-1], 1)) if scale is None else scale
    lowest = np.where(log_sum_exp == -np.inf, q.dtype.type(0), log_sum_exp)
    below = _scores(q, k, mask, causal, scale) - lowest[..., None]
    weights = np.exp(np.minimum(below, 0))  # forward kernels may round huge scores differently
    if v_grad is not None:
        _sum_heads(_multiply_seen(np.swapaxes(weights, -1, -2), out_grad), v_grad)
    if q_grad is None and k_grad is None:
        return
    # The gradient of softmax: each weight times the excess of its gradient over the mean.
    inner = out_grad @ np.swapaxes(_repeat_heads(v, q), -1, -2)
    inner -= np.sum(out_grad * out, axis=-1, keepdims=True)
    inner = np.where(weights == 0, weights, inner * weights * q.dtype.type(factor))
    if q_grad is not None:
        np.copyto(q_grad, _multiply_seen(inner, _repeat_heads(k, q)))
    if k_grad is not None:
        _sum_heads(_multiply_seen(np.swapaxes(inner, -1, -2), q), k_grad)


def _check_heads(ctx: InferContext, q: Shape, k: Shape) -> None:
    """Check that k has the leading axes of q; the heads of q may be a multiple of those of k."""
    if len(q) == 2:
        return
    if not shapes_match(q[:-3], k[:-3]):
        ctx.fail(
            f"q and k must have equal axes before the heads, got {format_shape(q)} and "
            f"{format_shape(k)}"
        )
    heads, shared = q[-3], k[-3]
    fits = dims_match(heads, shared) or (min(heads, shared) > 0 and heads % shared == 0)
    if not fits:
        ctx.fail(
            f"the number of heads in q must be a multiple of the number in k, got {heads} in q and "
            f"{shared} in k"
        )


def infer_attention(ctx: InferContext, keys: int | None = None) -> None:
    """The output has the shape of q with the last axis of v; `keys` includes cached keys."""
    q, k, v = (ctx.input(slot).shape for slot in ("q", "k", "v"))
    if not (len(q) == len(k) == len(v) >= 2):
        ranks = f"{len(q)}, {len(k)} and {len(v)}"
        ctx.fail(f"q, k and v must have the same rank of at least 2, got ranks {ranks}")
    if not dims_match(q[-1], k[-1]):
        ctx.fail(f"q and k must have equal last axes, got {format_shape(q)} and {format_shape(k)}")
    if not shapes_match(k[:-1], v[:-1]):
        shapes = f"{format_shape(k)} and {format_shape(v)}"
        ctx.fail(f"k and v must have the same shape except for the last axis, got {shapes}")
    _check_heads(ctx, q, k)
    if len(ctx.attr("window")) not in (0, 2):
        ctx.fail(f"window must be empty or [before, behind], got {list(ctx.attr('window'))}")
    if ctx.has_input("mask"):
        mask = ctx.input("mask")
        if mask.dtype not in ("bool", ctx.input("q").dtype):
            ctx.fail(f"mask must be bool or have the dtype of q, got {mask.dtype}")
        scores = (*q[:-1], merge_dims(k[-2], v[-2]) if keys is None else keys)
        require_broadcast(ctx, "mask", scores, "the scores {}")
    ctx.set_output("out", (*q[:-1], v[-1]))


def _attention_shape(ctx: InferContext) -> None:
    """The output has the shape of q with the last axis of v; log_sum_exp lacks the last axis."""
    infer_attention(ctx)
    wide = "float64" if ctx.input("q").dtype == "float64" else "float32"
    ctx.set_output("log_sum_exp", ctx.input("q").shape[:-1], wide)


def add_operands(maker: OpMaker, *, has_past: bool = False) -> OpMaker:
    """Add the inputs, outputs and score attributes of attention."""
    maker.add_input("q", "float [..., queries, size]").dtypes(*FLOATS)
    maker.add_input("k", "[..., keys, size]; the number of heads may be a divisor of that of q")
    maker.same_dtype_as("q").add_input("v", "[..., keys, columns], otherwise as k")
    maker.same_dtype_as("q")
    if has_past:
        for slot in ("k", "v"):
            maker.add_input(f"past_{slot}", f"{slot} of previous calls, any length on axis -2")
            maker.same_dtype_as("q")
    maker = (
        maker.add_input("mask", "bool or dtype of q, broadcasts to [..., queries, keys]")
        .dtypes("bool", *FLOATS)
        .as_optional()
        .add_output("out", "[..., queries, columns]; dtype of q")
        .same_dtype_as("q")
        .add_attr("causal", bool, "whether a query attends only to keys up to its own position")
        .default(False)
        .add_attr("scale", float, "factor of the products; absent: 1 / sqrt(size)")
        .add_attr(
            "softcap", float, "bound of the scores, softcap * tanh(scores / softcap); 0: none"
        )
        .default(0.0)
        .at_least(0.0)
        .as_added()
        .add_attr(
            "window",
            list[int],
            "visible keys before and behind the position of a query; -1: all; none given: [-1, -1]",
        )
        .default([])
        .at_least(-1)
        .as_added()
        .dispatch_on("q")
    )
    if has_past:
        return maker
    maker.add_attr(
        "from_end",
        bool,
        "whether the last query is aligned with the last key, as with cached keys, instead of "
        "the first query with the first key",
    )
    return maker.default(False).as_added()


SCALED_DOT_PRODUCT_ATTENTION = (
    add_operands(
        OpMaker("scaled_dot_product_attention").add_comment(
            "Attention, out = softmax(scale * q @ k^T + mask) @ v along the keys. A bool mask is "
            "true for visible keys, a float mask is added; both broadcast, without a gradient. "
            "With causal, query i sees the keys 0 to i. A query without visible keys results in "
            "0. Hidden keys have no effect, even if NaN. If q has more heads (axis -3) than k and "
            "v, adjacent ones share a head. Query i is aligned with key i, or with key i + keys - "
            "queries for from_end, if past keys are concatenated in front. Vaswani et al., 2017."
        )
    )
    .add_output("log_sum_exp", "of the scores of each query; float64 for float64, else float32")
    .dtypes("float32", "float64")
    .as_intermediate()
    .build(
        infer_shape=_attention_shape,
        gradient=grad_op(
            "scaled_dot_product_attention_grad",
            needs=["q", "k", "v", "mask", "out", "log_sum_exp"],
            no_grad=["mask"],
            body=ATTENTION,
        ),
        body=attention_body,
    )
)
