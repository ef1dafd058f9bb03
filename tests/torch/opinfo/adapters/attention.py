"""Adapters for scaled dot-product attention and multi-head attention."""

from __future__ import annotations

import math
from typing import Any, Final

import torch

from .arguments import (
    Adapter,
    RandomError,
    dtype_of,
    in_float32,
    ops,
    rank_of,
    shape_of,
)
from .networks import given_only, linear
from .shapes import repeat_interleave


def attention(
    q: Any,
    k: Any,
    v: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    if dropout_p:
        raise RandomError("the generator's numbers")
    if enable_gqa:
        groups = shape_of(q)[-3] // shape_of(k)[-3]
        k, v = (_each_head(value, groups) for value in (k, v))
    lead = list(torch.broadcast_shapes(*(shape_of(value)[:-2] for value in (q, k, v))))
    q, k, v = (ops.expand(value, shape=[*lead, *shape_of(value)[-2:]]) for value in (q, k, v))
    given = given_only(mask=attn_mask, scale=scale)
    return ops.scaled_dot_product_attention(q, k, v, causal=is_causal, returns="out", **given)


def _each_head(x: Any, n: int) -> Any:
    return x if n == 1 else repeat_interleave(x, n, -3)


def heads(
    query: Any,
    key: Any,
    value: Any,
    embed_dim: int,
    num_heads: int,
    in_weight: Any,
    in_bias: Any,
    bias_k: Any,
    bias_v: Any,
    add_zero: bool,
    dropout_p: float,
    out_weight: Any,
    out_bias: Any,
    **given: Any,
) -> Any:
    """Return multi-head attention over [length, batch, channels], and its weights."""
    if dropout_p and given.get("training", True):
        raise RandomError("the generator's numbers")
    if rank_of(query) == 2:
        wide = [ops.unsqueeze(x, axis=[1]) for x in (query, key, value)]
        if given.get("key_padding_mask") is not None:
            given["key_padding_mask"] = ops.unsqueeze(given["key_padding_mask"], axis=[0])
        more = (bias_k, bias_v, add_zero, dropout_p, out_weight, out_bias)
        out = heads(*wide, embed_dim, num_heads, in_weight, in_bias, *more, **given)
        return tuple(ops.squeeze(x, axis=[i]) for x, i in zip(out, (1, 0)))
    projected = _projected((query, key, value), in_weight, in_bias, given)
    for i, bias in ((1, bias_k), (2, bias_v)):
        if bias is not None:
            row = ops.expand(bias, shape=[1, *shape_of(projected[i])[1:]])
            projected[i] = ops.concat([projected[i], row], axis=0)
    q, k, v = (_as_heads(x, num_heads) for x in projected)
    if add_zero:
        k, v = (ops.pad(x, paddings=[0, 0, 0, 0, 0, 1, 0, 0]) for x in (k, v))
    scores = ops.scale(ops.matmul(q, k, transpose_y=True), scale=shape_of(q)[-1] ** -0.5)
    mask = _whole_mask(given, q, (bias_k is not None) + add_zero)
    weights = ops.softmax(scores if mask is None else ops.add(scores, mask), axis=-1)
    out = ops.transpose(ops.matmul(weights, v), axes=[2, 0, 1, 3])
    out = linear(ops.reshape(out, shape=shape_of(projected[0])), out_weight, out_bias)
    if not given.get("need_weights", True):
        return (out,)
    mean = given.get("average_attn_weights", True)
    return out, ops.mean(weights, axis=[1]) if mean else weights


def _projected(
    inputs: tuple[Any, ...], in_weight: Any, in_bias: Any, given: dict[str, Any]
) -> list[Any]:
    """Project queries, keys and values with rows of one weight, or with separate weights."""
    if given.get("use_separate_proj_weight"):
        weights = [given[f"{name}_proj_weight"] for name in "qkv"]
    else:
        weights = list(ops.split(in_weight, axis=0, num=3))
    biases = list(ops.split(in_bias, axis=0, num=3)) if in_bias is not None else [None] * 3
    return [linear(*item) for item in zip(inputs, weights, biases)]


def _whole_mask(given: dict[str, Any], q: Any, added: int) -> Any:
    """Combine the attention mask [queries, keys] with the key mask; added keys are visible."""
    mask, padding = given.get("attn_mask"), given.get("key_padding_mask")
    dtype = dtype_of(q)

    def as_addend(value: Any) -> Any:
        value = _seen(value, dtype) if dtype_of(value) == "bool" else value
        return ops.pad(value, paddings=[0, 0] * (rank_of(value) - 1) + [0, added])

    parts = []
    if mask is not None:
        wide = as_addend(mask)
        batch, heads_n = shape_of(q)[:2]
        parts.append(
            ops.reshape(wide, shape=[batch, heads_n, *shape_of(wide)[1:]])
            if rank_of(wide) == 3
            else wide
        )
    if padding is not None:
        wide = as_addend(padding)
        parts.append(ops.reshape(wide, shape=[shape_of(wide)[0], 1, 1, -1]))
    return None if not parts else parts[0] if len(parts) == 1 else ops.add(*parts)


def _seen(hidden: Any, dtype: str) -> Any:
    """Convert a mask of nn.MultiheadAttention to -inf at masked positions, and 0 elsewhere."""
    zeros = ops.fill(shape=shape_of(hidden), dtype=dtype)
    return ops.where(hidden, -math.inf, zeros)


def _as_heads(x: Any, n: int) -> Any:
    length, batch, channels = shape_of(x)
    x = ops.reshape(x, shape=[length, batch, n, channels // n])
    return ops.transpose(x, axes=[1, 2, 0, 3])


ADAPTERS: Final[dict[str, Adapter]] = {
    "nn.functional.multi_head_attention_forward": in_float32(heads),
    "nn.functional.scaled_dot_product_attention": attention,
}
