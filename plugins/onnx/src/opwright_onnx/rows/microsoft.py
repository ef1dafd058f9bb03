"""Rows of the fused transformer operators that ONNX Runtime's optimizers emit."""

from __future__ import annotations

from typing import Any

import numpy as np

from opwright_onnx.errors import DeclinedError
from opwright_onnx.translate.node import Node
from opwright_onnx.translate.table import Rows
from opwright_onnx.translate.translator import Translator
from opwright_onnx.translate.values import Value, check_table

ROWS = Rows()

_DOMAIN = "com.microsoft"


@ROWS.row(f"{_DOMAIN}::Gelu", f"{_DOMAIN}::FastGelu", f"{_DOMAIN}::BiasGelu")
def gelu(t: Translator, n: Node, x: Value, bias: Value = None) -> Any:
    x = x if bias is None else t.op("add", x, bias)
    return t.op("gelu", x, approximate="tanh" if n.op_type == "FastGelu" else "none")


@ROWS.row(f"{_DOMAIN}::QuickGelu")
def quick_gelu(t: Translator, n: Node, x: Value) -> Any:
    return t.op("swish", x, beta=n.attr("alpha", 1.702))


@ROWS.row(f"{_DOMAIN}::FusedMatMul")
def fused_matmul(t: Translator, n: Node, x: Value, y: Value) -> Any:
    if n.attr("transBatchA") or n.attr("transBatchB"):
        raise DeclinedError("transBatchA and transBatchB must be 0")
    flags = {"transpose_x": bool(n.attr("transA")), "transpose_y": bool(n.attr("transB"))}
    found = t.op("matmul", x, y, **{k: v for k, v in flags.items() if v})
    alpha = n.attr("alpha", 1.0)
    return found if alpha == 1 else t.op("multiply", found, alpha)


@ROWS.row(f"{_DOMAIN}::SkipLayerNormalization", f"{_DOMAIN}::SkipSimplifiedLayerNormalization")
def skip_norm(t: Translator, n: Node, x: Value, skip: Value, scale: Value, *rest: Value) -> Any:
    is_simple = "Simplified" in n.op_type
    beta, bias = [*([None] if is_simple else []), *rest, None, None][:2]
    total = t.op("add", x, skip)
    total = total if bias is None else t.op("add", total, bias)
    found = _normalized(t, total, scale, beta, n.attr("epsilon", 1e-12), is_simple)
    return found, None, None, total


def _normalized(
    t: Translator, x: Value, scale: Value, beta: Value, epsilon: float, is_simple: bool
) -> Value:
    axis = t.rank(x) - 1
    if is_simple:
        return t.op("rms_norm", x, scale, begin_norm_axis=axis, epsilon=epsilon)
    return t.op("layer_norm", x, scale, beta, begin_norm_axis=axis, epsilon=epsilon)


@ROWS.row(f"{_DOMAIN}::SimplifiedLayerNormalization", "SimplifiedLayerNormalization")
def simplified_norm(t: Translator, n: Node, x: Value, scale: Value) -> Any:
    axis = t.axis(n.attr("axis", -1), t.rank(x))
    if not axis or n.n_outputs > 1:
        raise DeclinedError("the node must have one output, and axis must not be 0")
    return t.op("rms_norm", x, scale, begin_norm_axis=axis, epsilon=n.attr("epsilon", 1e-5))


@ROWS.row(f"{_DOMAIN}::RotaryEmbedding")
def rotary_embedding(
    t: Translator, n: Node, x: Value, positions: Value, cos: Value, sin: Value
) -> Any:
    if n.attr("rotary_embedding_dim") or n.attr("scale", 1.0) != 1 or t.rank(x) != 4:
        raise DeclinedError(
            "x must be [batch, heads, length, size], with rotary_embedding_dim 0 and scale 1"
        )
    if t.shape(positions) == [1]:
        length = t.known_dim(x, 2, "input")
        check_table(length)
        positions = t.op("add", np.arange(length, dtype=np.int64)[None], positions)
    cosines, sines = (t.op("gather", table, positions, axis=0) for table in (cos, sin))
    cosines, sines = (t.op("unsqueeze", table, axis=[1]) for table in (cosines, sines))
    return turn(t, x, cosines, sines, bool(n.attr("interleaved", 0)))


def turn(t: Translator, x: Value, cos: Value, sin: Value, interleaved: bool) -> Value:
    """Rotate pairs along the last axis: (i, i + size / 2), or neighbors if `interleaved`."""
    size = t.known_dim(x, -1, "input")
    last = t.rank(x) - 1
    if interleaved:
        parts = [
            t.op("slice", x, axes=[last], starts=[i], ends=[size], steps=[2]) for i in range(2)
        ]
    else:
        bounds = ((0, size // 2), (size // 2, size))
        parts = [t.slice(x, [last], [start], [end]) for start, end in bounds]
    real = t.op("subtract", t.op("multiply", parts[0], cos), t.op("multiply", parts[1], sin))
    imaginary = t.op("add", t.op("multiply", parts[0], sin), t.op("multiply", parts[1], cos))
    if not interleaved:
        return t.op("concat", [real, imaginary], axis=last)
    return t.op("reshape_like", t.op("stack", [real, imaginary], axis=last + 1), x)


@ROWS.row(f"{_DOMAIN}::Attention")
def attention(
    t: Translator,
    n: Node,
    x: Value,
    weights: Value,
    bias: Value = None,
    mask: Value = None,
    past: Value = None,
    added: Value = None,
) -> Any:
    if past is not None or n.attr("qkv_hidden_sizes") or n.n_outputs > 1:
        raise DeclinedError("past, present and qkv_hidden_sizes must be absent")
    heads = n.attr("num_heads")
    total = t.op("matmul", x, weights)
    total = total if bias is None else t.op("add", total, bias)
    batch, length = t.dim(x, 0), t.dim(x, 1)
    width = t.known_dim(weights, 1, "weights") // 3
    parts = t.op("split", total, axis=2, num=3)
    split = [t.reshape(part, [batch, length, heads, width // heads]) for part in parts]
    q, k, v = (t.transpose(part, [0, 2, 1, 3]) for part in split)
    if mask is not None:
        added = _masked(t, mask, added, n.attr("mask_filter_value", -10000.0), t.dtype(x))
    flags = {"causal": bool(n.attr("unidirectional", 0))}
    scale = n.attr("scale", 0.0)
    flags.update({"scale": scale} if scale else {})
    found = t.op("scaled_dot_product_attention", q, k, v, added, **flags)
    return t.reshape(t.transpose(found, [0, 2, 1, 3]), [batch, length, width])


def _masked(t: Translator, mask: Value, added: Value, low: float, dtype: str) -> Value:
    """Convert a mask [n, keys] or [n, queries, keys], where 0 hides a key, to a score bias."""
    if t.rank(mask) not in (2, 3):
        raise DeclinedError(f"mask_index must have 2 or 3 axes, got {t.rank(mask)}")
    axes = [1, 2] if t.rank(mask) == 2 else [1]
    hidden = t.op("subtract", t.scalar(1.0, dtype), t.cast(mask, dtype))
    scores = t.op("multiply", hidden, low)
    scores = t.op("unsqueeze", scores, axis=axes)
    return scores if added is None else t.op("add", scores, added)
