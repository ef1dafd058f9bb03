"""Rows of ONNX attention operators; if a row declines, the function body is used."""

from __future__ import annotations

from typing import Any

import numpy as np

from opwright_onnx.errors import DeclinedError
from opwright_onnx.rows.microsoft import turn
from opwright_onnx.translate.node import Node
from opwright_onnx.translate.table import Rows
from opwright_onnx.translate.translator import Translator
from opwright_onnx.translate.values import Value
from opwright_onnx.translate.walking import Walk, walks

ROWS = Rows()


@ROWS.row("Attention")
@walks
def attention(
    walk: Walk, n: Node, q: Value, k: Value, v: Value, mask: Value = None, *cached: Value
) -> Any:
    t = walk.translator
    longer = _lengthen(t, k, mask, cached)
    if longer is not mask:
        inputs = [q, k, v, longer, *cached]
        return tuple(walk.evaluate(Node(n.proto, inputs, n.attrs, n.opset)))
    _check(t, n, q, k, mask, cached)
    is_flat = t.rank(q) == 3
    if is_flat:
        heads = n.attr("q_num_heads"), *[n.attr("kv_num_heads")] * 2
        q, k, v = (_with_heads(t, x, count) for x, count in zip((q, k, v), heads))
    flags: dict[str, Any] = {"causal": bool(n.attr("is_causal"))}
    if n.attr("scale"):
        flags["scale"] = n.attr("scale")
    found = t.op("scaled_dot_product_attention", q, k, v, mask, **flags)
    if not is_flat:
        return found
    batch, length = t.dim(found, 0), t.dim(found, 2)
    return t.reshape(t.transpose(found, [0, 2, 1, 3]), [batch, length, -1])


def _lengthen(t: Translator, k: Value, mask: Value, cached: tuple[Value, ...]) -> Value:
    """Extend the mask to all keys, including cached keys; keys beyond its old end are masked."""
    past = cached[0] if cached else None
    lengths = [t.shape(x)[-2] for x in (past, k) if x is not None]
    width = 1 if mask is None else t.shape(mask)[-1]
    total = sum(length for length in lengths if length is not None)
    if width in (None, 1) or None in lengths or width >= total:
        return mask
    value = 0.0 if t.dtype(mask) == "bool" else -np.inf
    widths = [*[0] * (2 * t.rank(mask) - 1), total - width]
    return t.op("pad", mask, paddings=widths, value=value)


def _with_heads(t: Translator, x: Value, count: int) -> Value:
    """Reshape [n, length, columns] to [n, heads, length, size]."""
    width = t.known_dim(x, 2, "input")
    parts = t.reshape(x, [t.dim(x, 0), t.dim(x, 1), count, width // count])
    return t.transpose(parts, [0, 2, 1, 3])


def _check(
    t: Translator, n: Node, q: Value, k: Value, mask: Value, cached: tuple[Value, ...]
) -> None:
    """Decline arguments that opwright's attention operator does not support."""
    if any(value is not None for value in cached) or any(n.wants(i) for i in (1, 2, 3)):
        raise DeclinedError(
            "past_key and past_value must be absent, and the node must have one output"
        )
    for name in ("softcap", "softmax_precision"):
        if n.attr(name):
            raise DeclinedError(f"{name} must be absent, got {n.attr(name)}")
    for name in ("left_window_size", "right_window_size"):
        if n.attr(name, -1) != -1:
            raise DeclinedError(f"{name} must be -1, got {n.attr(name)}")
    if mask is not None and t.shape(mask)[-1] != t.shape(k)[-2] and t.shape(mask)[-1] != 1:
        raise DeclinedError("attn_mask must be as long as the keys")
    if mask is not None and t.dtype(mask) not in ("bool", t.dtype(q)):
        raise DeclinedError("attn_mask must be bool, or have the dtype of Q")


@ROWS.row("RotaryEmbedding")
def rotary_embedding(
    t: Translator, n: Node, x: Value, cos: Value, sin: Value, positions: Value = None
) -> Any:
    if n.attr("rotary_embedding_dim") or t.rank(x) != 4:
        raise DeclinedError(
            "x must be [batch, heads, length, size], and rotary_embedding_dim must be 0"
        )
    if positions is not None:
        cos, sin = (t.op("gather", table, positions, axis=0) for table in (cos, sin))
    cos, sin = (t.op("unsqueeze", table, axis=[1]) for table in (cos, sin))
    return turn(t, x, cos, sin, bool(n.attr("interleaved")))
