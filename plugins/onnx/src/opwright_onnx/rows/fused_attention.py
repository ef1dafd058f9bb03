"""Rows of the attention operators of ONNX Runtime, with past keys and values."""

from __future__ import annotations

from typing import Any, Final

from opwright_onnx.errors import DeclinedError
from opwright_onnx.rows.microsoft import turn_start
from opwright_onnx.translate.node import Node
from opwright_onnx.translate.table import Rows
from opwright_onnx.translate.translator import Translator
from opwright_onnx.translate.values import Value

ROWS = Rows()

_DOMAIN: Final = "com.microsoft"
_LOW: Final = -10000.0
"""The default of mask_filter_value."""


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
    *rest: Value,
) -> Any:
    if n.attr("do_rotary") or any(value is not None for value in rest):
        raise DeclinedError("do_rotary must be 0, and past_sequence_length must be absent")
    heads = n.attr("num_heads")
    total = t.op("matmul", x, weights)
    total = total if bias is None else t.op("add", total, bias)
    width = t.known_dim(weights, 1, "weights") // 3
    widths = n.attr("qkv_hidden_sizes") or [width] * 3
    ends = [sum(widths[:i]) for i in range(4)]
    parts = [t.slice(total, [2], [ends[i]], [ends[i + 1]]) for i in range(3)]
    q, k, v = (_split_heads(t, part, heads) for part in parts)
    present = None
    if past is not None:
        cached = [t.op("squeeze", t.slice(past, [0], [i], [i + 1]), axis=[0]) for i in range(2)]
        k, v = (t.op("concat", pair, axis=2) for pair in zip(cached, (k, v), strict=True))
    if n.wants(1):
        present = t.op("stack", [k, v])
    added = _masked(t, n, mask, added, k, t.dtype(x))
    return _merge_heads(t, _attend(t, n, q, k, v, added)), present


def _split_heads(t: Translator, x: Value, heads: int) -> Value:
    """Reshape [batch, length, columns] to [batch, heads, length, size]."""
    width = t.known_dim(x, 2, "input")
    parts = t.reshape(x, [t.dim(x, 0), t.dim(x, 1), heads, width // heads])
    return t.transpose(parts, [0, 2, 1, 3])


def _merge_heads(t: Translator, x: Value) -> Value:
    """Reshape [batch, heads, length, size] to [batch, length, columns]."""
    turned = t.transpose(x, [0, 2, 1, 3])
    columns = t.known_dim(x, 1, "heads") * t.known_dim(x, 3, "values")
    return t.reshape(turned, [t.dim(x, 0), t.dim(x, 2), columns])


def _attend(
    t: Translator, n: Node, q: Value, k: Value, v: Value, added: Value, softcap: float = 0.0
) -> Value:
    flags: dict[str, Any] = {}
    if n.attr("unidirectional"):
        flags.update(causal=True, from_end=True)
    if n.attr("scale"):
        flags["scale"] = n.attr("scale")
    if softcap:
        flags["softcap"] = softcap
    return t.op("scaled_dot_product_attention", q, k, v, added, **flags)


def _masked(t: Translator, n: Node, mask: Value, added: Value, k: Value, dtype: str) -> Value:
    """Convert a mask to a score bias that broadcasts with [batch, heads, queries, keys]."""
    if mask is None:
        return added
    low = n.attr("mask_filter_value", _LOW)
    if t.rank(mask) == 1:
        mask = _as_flags(t, mask, k)
    rank = t.rank(mask)
    if rank not in (2, 3):
        raise DeclinedError(f"the mask must have at most 3 axes, got {rank}")
    hidden = t.op("subtract", t.scalar(1.0, dtype), t.cast(mask, dtype))
    scores = t.op("unsqueeze", t.op("multiply", hidden, low), axis=[1, 2] if rank == 2 else [1])
    return scores if added is None else t.op("add", scores, added)


def _as_flags(t: Translator, lengths: Value, k: Value) -> Value:
    """Return the mask [batch, keys] of sequences given by their ends, or by ends and starts."""
    batch, count, known = t.dim(k, 0), t.shape(lengths)[0], t.shape(k)[0]
    if count != known and (count is None or known is None or count != 2 * known):
        raise DeclinedError(f"a mask with 1 axis must have as many items as the batch, got {count}")
    keys = t.op("arange", start=0, stop=t.dim(k, 2), step=1, dtype="int64")
    lengths = t.cast(lengths, "int64")
    ends = t.reshape(t.slice(lengths, [0], [0], [batch]), [-1, 1])
    flags = t.op("less", keys, ends)
    if known is not None and count == 2 * known:
        starts = t.reshape(t.slice(lengths, [0], [known], [2 * known]), [-1, 1])
        flags = t.op("logical_and", flags, t.op("greater_equal", keys, starts))
    return flags


@ROWS.row(f"{_DOMAIN}::MultiHeadAttention")
def multi_head_attention(t: Translator, n: Node, *inputs: Value) -> Any:
    given = [*inputs, *[None] * (10 - len(inputs))]
    query, key, value, bias, mask, added, past_key, past_value, *rest = given
    if any(item is not None for item in rest) or n.wants(3):
        raise DeclinedError("past_sequence_length, cache_indirection and qk must be absent")
    q, k, v = _unpacked(t, n, query, key, value)
    if bias is not None:
        q, k, v = _biased(t, bias, (q, k, v))
    if past_key is not None:
        k = t.op("concat", [past_key, k], axis=2)
        v = t.op("concat", [past_value, v], axis=2)
    added = _masked(t, n, mask, added, k, t.dtype(q))
    return _merge_heads(t, _attend(t, n, q, k, v, added)), k, v


def _unpacked(t: Translator, n: Node, query: Value, key: Value, value: Value) -> list[Value]:
    """Return queries, keys and values [batch, heads, length, size]."""
    heads = n.attr("num_heads")
    if key is None:  # [batch, length, heads, 3, size]
        return _parts(t, query, 3)
    q = _split_heads(t, query, heads)
    if value is None:  # [batch, length, heads, 2, size]
        return [q, *_parts(t, key, 2)]
    return [q, *(x if t.rank(x) == 4 else _split_heads(t, x, heads) for x in (key, value))]


def _parts(t: Translator, x: Value, count: int) -> list[Value]:
    if t.rank(x) != 5:
        raise DeclinedError(f"packed values must have 5 axes, got {t.rank(x)}")
    found = t.transpose(x, [3, 0, 2, 1, 4])
    return [t.op("squeeze", t.slice(found, [0], [i], [i + 1]), axis=[0]) for i in range(count)]


def _biased(t: Translator, bias: Value, parts: tuple[Value, ...]) -> list[Value]:
    """Add the parts of a bias [columns of queries, keys and values]."""
    found, start = [], 0
    for part in parts:
        heads, size = t.known_dim(part, 1, "heads"), t.known_dim(part, 3, "values")
        own = t.reshape(t.slice(bias, [0], [start], [start + heads * size]), [heads, 1, size])
        found.append(t.op("add", part, own))
        start += heads * size
    return found


@ROWS.row(f"{_DOMAIN}::GroupQueryAttention")
def group_query_attention(t: Translator, n: Node, *inputs: Value) -> Any:
    given = [*inputs, *[None] * (14 - len(inputs))]
    query, key, value, past_key, past_value, last, total, cos, sin, places, added, *rest = given
    _check_groups(n, rest)
    q, k, v = _read_groups(t, n, query, key, value)
    length = t.dim(q, 2)
    ends = t.op("add", t.cast(t.reshape(last, [-1, 1]), "int64"), 1)
    own = t.op("arange", start=0, stop=length, step=1, dtype="int64")
    n_past = t.op("maximum", t.op("subtract", ends, length), 0)  # [batch, 1]
    positions = t.op("add", n_past, own)
    if n.attr("do_rotary"):
        places = positions if places is None else places
        cosines, sines = (_table(t, x, places) for x in (cos, sin))
        is_interleaved = bool(n.attr("rotary_interleaved"))
        q, k = (turn_start(t, x, cosines, sines, is_interleaved) for x in (q, k))
    if past_key is not None:
        order = _order(t, past_key, total, n_past, own)
        k, v = (_joined(t, x, past, order) for x, past in ((k, past_key), (v, past_value)))
    keys = t.op("arange", start=0, stop=t.dim(k, 2), step=1, dtype="int64")
    rows = t.op("unsqueeze", positions, axis=[-1])
    seen = t.op("less_equal", keys, rows)
    window = n.attr("local_window_size", -1)
    if window > 0:
        seen = t.op("logical_and", seen, t.op("greater", keys, t.op("subtract", rows, window)))
    mask = t.op("unsqueeze", seen, axis=[1])
    if added is not None:
        added = t.slice(added, [3], [0], [t.dim(k, 2)])
        mask = t.op("where", mask, added, t.scalar(float("-inf"), t.dtype(q)))
    found = _attend(t, n, q, k, v, mask, n.attr("softcap") or 0.0)
    return _merge_heads(t, found), k, v


def _check_groups(n: Node, rest: list[Value]) -> None:
    absent = ("smooth_softmax", "qk_output", "k_quant_type", "v_quant_type", "kv_cache_bit_width")
    for name in absent:
        if n.attr(name, 0) not in (0, -1, "NONE"):
            raise DeclinedError(f"{name} must be absent, got {n.attr(name)}")
    if n.attr("smooth_softmax") == -1 or any(value is not None for value in rest) or n.wants(3):
        raise DeclinedError("smooth_softmax, head_sink and k_scale must be absent")


def _read_groups(t: Translator, n: Node, query: Value, key: Value, value: Value) -> list[Value]:
    """Return queries, keys and values by head; they can be packed in the query."""
    heads, groups = n.attr("num_heads"), n.attr("kv_num_heads")
    if key is not None:
        counts = (heads, groups, groups)
        return [_split_heads(t, x, count) for x, count in zip((query, key, value), counts)]
    size = t.known_dim(query, 2, "query") // (heads + 2 * groups)
    ends = [0, heads * size, (heads + groups) * size, (heads + 2 * groups) * size]
    parts = [t.slice(query, [2], [ends[i]], [ends[i + 1]]) for i in range(3)]
    return [_split_heads(t, x, c) for x, c in zip(parts, (heads, groups, groups))]


def _table(t: Translator, table: Value, places: Value) -> Value:
    """Return the rows of cosines or sines of the positions, [batch, 1, length, size / 2]."""
    return t.op("unsqueeze", t.op("gather", table, places, axis=0), axis=[1])


def _order(t: Translator, past: Value, total: Value, n_past: Value, own: Value) -> Value:
    """Return the place of each present key in [past keys, own keys], int64 [batch, 1, keys, 1]."""
    buffer = t.dim(past, 2)
    count = t.op("maximum", t.reshape(t.cast(total, "int64"), [1]), buffer)
    keys = t.op("arange", start=0, stop=count, step=1, dtype="int64")
    shift = t.op("subtract", keys, n_past)
    most = t.op("add", t.op("max", own), buffer)
    moved = t.op("minimum", t.op("add", shift, buffer), most)
    order = t.op("where", t.op("less", shift, 0), keys, moved)
    return t.op("unsqueeze", order, axis=[1, 3])


def _joined(t: Translator, x: Value, past: Value, order: Value) -> Value:
    """Return past and own keys; keys beyond the total length are undefined."""
    both = t.op("concat", [past, x], axis=2)
    ones = [t.dim(x, 0), t.dim(x, 1), 1, t.dim(x, 3)]
    spread = t.op("add", order, t.full(0, ones, "int64"))
    return t.op("take_along_axis", both, spread, axis=2)


@ROWS.row(f"{_DOMAIN}::EmbedLayerNormalization")
def embed_norm(t: Translator, n: Node, *inputs: Value) -> Any:
    given = [*inputs, *[None] * (9 - len(inputs))]
    ids, segments, words, places, kinds, scale, beta, mask, positions = given
    total = t.op("gather", words, ids, axis=0)
    if positions is None:
        row = t.slice(places, [0], [0], [t.dim(ids, 1)])
    else:
        row = t.op("gather", places, positions, axis=0)
    total = t.op("add", total, row)
    if segments is not None:
        total = t.op("add", total, t.op("gather", kinds, segments, axis=0))
    found = t.op(
        "layer_norm", total, scale, beta, begin_norm_axis=2, epsilon=n.attr("epsilon", 1e-12)
    )
    lengths = None
    if n.wants(1) and mask is not None:
        lengths = t.cast(t.op("sum", mask, axis=[1]), "int32")
    elif n.wants(1):
        lengths = t.full(0, [t.dim(ids, 0)], "int32")
    return found, lengths, total
