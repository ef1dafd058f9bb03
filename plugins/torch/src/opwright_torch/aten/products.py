"""Matrix products and attention."""

from __future__ import annotations

from math import sqrt
from typing import Any, Final

import torch

from opwright_torch.aten.shapes import broadcast_dims, with_shape
from opwright_torch.translate import Decline, Rows, Translator, find_row
from opwright_torch.translate.translator import Value

ROWS: Final = Rows()


@ROWS.row("aten::linear")
def linear(t: Translator, input: Value, weight: Value, bias: Value) -> Value:
    """Return `input` @ `weight`ᵀ + `bias`."""
    last = len(input.shape) - 1
    if last > 0 and len(weight.shape) == 2:
        return t.op("fc", input, weight, bias, transpose_weight=True, num_flatten_dims=last)
    product = t.op("matmul", input, weight, transpose_y=len(weight.shape) == 2)
    return product if bias is None else t.op("add", product, bias)


@ROWS.row("aten::matmul", "aten::mm", "aten::bmm", "aten::mv")
def matmul(t: Translator, input: Value, **others: Value) -> Value:
    """Return the product of matrices, batches of matrices, and vectors."""
    (other,) = (value for name, value in others.items() if name in ("other", "mat2", "vec"))
    return t.op("matmul", input, other)


@ROWS.row("aten::dot", "aten::vdot", "aten::inner")
def dot(t: Translator, input: Value, **others: Value) -> Value:
    """Return the sum of the products along the last axes."""
    (other,) = others.values()
    if not input.shape or not other.shape:
        return t.op("multiply", input, other)
    return t.op("matmul", input, other, transpose_y=len(other.shape) > 1)


@ROWS.row("aten::outer")
def outer(t: Translator, input: Value, vec2: Value) -> Value:
    """Return the outer product of two vectors."""
    return t.op("outer", *t.promote(input, vec2))


def _plus(t: Translator, product: Value, input: Value, beta: Value, alpha: Value) -> Value:
    """Return `beta` · `input` + `alpha` · `product`; if `beta` is 0, `input` is not read."""
    if alpha != 1:
        product = t.op("multiply", product, alpha)
    if beta == 0:
        return product
    return t.op("add", input if beta == 1 else t.op("multiply", input, beta), product)


@ROWS.row("aten::addmm", "aten::addmv", "aten::baddbmm", "aten::addr")
def addmm(t: Translator, input: Value, beta: Value, alpha: Value, **factors: Value) -> Value:
    """Return `beta` · `input` + `alpha` · the product of two factors."""
    x, y = factors.values()
    if len(x.shape) == 1:
        return _plus(t, t.op("outer", x, y), input, beta, alpha)
    is_layer = len(x.shape) == len(y.shape) == 2 and t.shape(input) == [t.shape(y)[1]]
    if is_layer and (alpha, beta) == (1, 1):
        return t.op("fc", x, y, input)
    return _plus(t, t.op("matmul", x, y), input, beta, alpha)


@ROWS.row("aten::addbmm")
def addbmm(t: Translator, input: Value, batch1: Value, batch2: Value, **factors: Value) -> Value:
    """Return `beta` · `input` + `alpha` · the sum of the products of two batches."""
    product = t.op("sum", t.op("matmul", batch1, batch2), axis=[0])
    return _plus(t, product, input, factors["beta"], factors["alpha"])


@ROWS.row("aten::_grouped_mm", "transformers::grouped_mm_fallback")
def grouped_mm(
    t: Translator,
    input: Value,
    offs: Value,
    bias: Value = None,
    out_dtype: Value = None,
    **others: Value,
) -> Value:
    """Return a product for each group of rows or columns; `offs` are the ends of the groups."""
    (other,) = others.values()
    if bias is not None:
        raise Decline("no operator adds a bias to grouped products")
    if offs is None:
        return t.op("matmul", input, other)
    if len(other.shape) == 3:
        source = _source(t, other)
        weight = other if source is None else source
        return t.op("grouped_matmul", input, weight, offs, transpose_weight=source is not None)
    if len(input.shape) == 2:
        return t.op("grouped_outer", _transpose(t, input), other, offs)
    columns = t.op("grouped_matmul", _transpose(t, other), input, offs, transpose_weight=True)
    return _transpose(t, columns)


def _source(t: Translator, x: Value) -> Value:
    """Return the matrices whose transposes are `x`, or None if `x` is not a known transpose."""
    written = t.writer(x, "transpose")
    n = len(x.shape)
    if written is None or written.attr("axes") != (*range(n - 2), n - 1, n - 2):
        return None
    return t.block.var(written.input("x")[0])


def _transpose(t: Translator, x: Value) -> Value:
    source = _source(t, x)
    return t.op("transpose", x) if source is None else source


@ROWS.row("aten::bilinear")
def bilinear(t: Translator, input1: Value, input2: Value, weight: Value, bias: Value) -> Value:
    """Return `input1` @ `weight[k]` @ `input2` for each k, + `bias`."""
    return t.op("bilinear", input1, input2, weight, bias)


@ROWS.row("aten::einsum")
def einsum(t: Translator, equation: str, tensors: Value, path: Value) -> Value:
    """Append an Einstein summation."""
    return t.op("einsum", list(tensors), equation=equation.replace(" ", ""))


@ROWS.row("aten::scaled_dot_product_attention")
def attention(
    t: Translator,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Value:
    """Return softmax(`scale` · `query` @ `key`ᵀ + `attn_mask`) @ `value`."""
    if not enable_gqa:
        query, key, value = _share_batch(t, query, key, value)
    if dropout_p or _is_trained(t, attn_mask):
        return _attention_in_steps(t, query, key, value, attn_mask, dropout_p, is_causal, scale)
    attrs: dict[str, Any] = {"causal": is_causal}
    if scale is not None:
        attrs["scale"] = float(scale)
    return t.op("scaled_dot_product_attention", query, key, value, attn_mask, **attrs)


def _share_batch(t: Translator, *values: Value) -> list[Value]:
    """Broadcast all axes except the last two, for example if query heads share one key head."""
    batch = broadcast_dims([t.shape(x)[:-2] for x in values])
    return [
        x if t.shape(x)[:-2] == batch else t.op("expand", x, shape=[*batch, *t.shape(x)[-2:]])
        for x in values
    ]


def _repeat_heads(t: Translator, query: Value, x: Value) -> Value:
    """Repeat each head of `x` for the query heads that share it."""
    *batch, heads, length, size = t.shape(x)
    n = t.shape(query)[-3] // heads
    wide = t.op("unsqueeze", x, axis=[len(batch) + 1])
    wide = t.op("expand", wide, shape=[*batch, heads, n, length, size])
    return with_shape(t, wide, [*batch, heads * n, length, size])


def _is_trained(t: Translator, mask: Value) -> bool:
    """Return whether a mask depends on a value that requires a gradient."""
    if mask is None or mask.dtype == "bool":
        return False
    writers = {name: op for op in t.block.ops for name in op.output_names()}
    seen: set[str] = set()
    waiting = [mask.name]
    while waiting:
        name = waiting.pop()
        if name in writers:
            waiting.extend(set(writers[name].input_names()) - seen)
        elif not t.block.var(name).stop_gradient:
            return True
        seen.add(name)
    return False


def _attention_in_steps(
    t: Translator,
    query: Value,
    key: Value,
    value: Value,
    mask: Value,
    dropout: float,
    is_causal: bool,
    scale: float | None,
) -> Value:
    """Compose attention from matrix products and softmax, for dropout or a trained mask."""
    if t.shape(query)[:-2] != t.shape(key)[:-2]:
        key, value = (_repeat_heads(t, query, x) for x in (key, value))
    factor = 1 / sqrt(t.shape(query)[-1]) if scale is None else float(scale)
    scores = t.op("matmul", t.op("scale", query, scale=factor), key, transpose_y=True)
    if is_causal:
        ones = t.full(1.0, t.shape(scores)[-2:], "float32")
        mask = t.op("greater", t.op("tril", ones), t.full(0.0, (), "float32"))
    if mask is not None and mask.dtype == "bool":
        # A row without visible keys has zero weights instead of NaN, as in PyTorch.
        scores = t.op("where", mask, scores, t.full(float("-inf"), (), scores.dtype))
        weights = t.op("softmax", scores, axis=-1)
        weights = t.op("where", mask, weights, t.full(0.0, (), scores.dtype))
    else:
        weights = t.op("softmax", scores if mask is None else t.op("add", scores, mask), axis=-1)
    if dropout:
        row = find_row(torch.ops.aten.dropout.default)
        if row is None:
            raise Decline(f"no table has a row for dropout, got dropout_p={dropout}")
        weights = row(t, input=weights, p=dropout, train=True)
    return t.op("matmul", weights, value)


@ROWS.row("aten::_scaled_dot_product_flash_attention_for_cpu")
def flash_attention(
    t: Translator,
    query: Value,
    key: Value,
    value: Value,
    dropout_p: float,
    is_causal: bool,
    attn_mask: Value,
    scale: float | None,
) -> Value:
    """Return attention and the logsumexp of its scores."""
    if dropout_p:
        raise Decline(f"dropout is unsupported, got dropout_p={dropout_p}")
    attrs = {} if scale is None else {"scale": float(scale)}
    inputs = (query, key, value, attn_mask)
    return t.op("scaled_dot_product_attention", *inputs, causal=is_causal, n=2, **attrs)
