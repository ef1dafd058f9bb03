"""Rows of quantization operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from opwright_onnx.dtypes import dtype_name
from opwright_onnx.errors import DeclinedError
from opwright_onnx.rows.products import product
from opwright_onnx.translate.codes import KINDS, Codes, decode, encode
from opwright_onnx.translate.node import Node
from opwright_onnx.translate.table import Rows
from opwright_onnx.translate.translator import Translator
from opwright_onnx.translate.values import Value, check_table
from opwright_onnx.translate.walking import call_row

ROWS = Rows()


@ROWS.row("QuantizeLinear", "com.microsoft::QuantizeLinear")
def quantize_linear(t: Translator, n: Node, x: Value, scale: Value, zero: Value = None) -> Any:
    named = n.attr("output_dtype")
    dtype = "uint8" if zero is None else t.dtype(zero)
    if named:
        dtype = KINDS.get(named) or dtype_name(named)
    if dtype in KINDS.values():
        return _carried(t, n, x, scale, zero, dtype)
    return quantize(t, x, scale, zero, dtype, n.attr("axis", 1), n.attr("block_size") or 0)


def _carried(t: Translator, n: Node, x: Value, scale: Value, zero: Value, kind: str) -> Value:
    """Quantize to a dtype that opwright lacks and represents as bytes."""
    axis, block = n.attr("axis", 1), n.attr("block_size") or 0
    wide = t.cast(x, "float64")
    real = t.op("divide", wide, _along(t, wide, t.cast(scale, "float64"), axis, block))
    if kind in ("int2", "uint2"):
        low, high = (-2, 1) if kind == "int2" else (0, 3)
        real = t.op("round", real)
        if zero is not None:
            real = t.op(
                "add", real, _along(t, wide, t.cast(decode(t, zero), "float64"), axis, block)
            )
        real = t.op("clip", real, min=float(low), max=float(high))
    return encode(t, real, kind, bool(n.attr("saturate", 1)), "nearest")


def _along(t: Translator, x: Value, scale: Value, axis: int, block: int) -> Value:
    """Reshape a scale per tensor, axis index or block so that it broadcasts with `x`."""
    scale = _scalar_of(t, scale)
    if t.rank(scale) == 1:
        shape = [1] * t.rank(x)
        shape[axis] = -1
        return t.reshape(scale, shape)
    if t.rank(scale) == 0 or not block:
        return scale
    length = t.known_dim(x, axis, "x")
    check_table(length)
    index = np.arange(length) // block
    return t.op("gather", scale, index, axis=t.axis(axis, t.rank(x)))


def quantize(
    t: Translator,
    x: Value,
    scale: Value,
    zero: Value,
    dtype: str,
    axis: int = 1,
    block: int = 0,
) -> Value:
    """Return x / scale + zero, rounded and clipped to the range of a dtype."""
    wide, _ = t.promote(x, "float32", "float64")
    scale, zero = _alike(t, t.cast(scale, t.dtype(wide)), zero)
    return t.op("quantize", wide, scale, zero, dtype=dtype, axis=axis, block_size=block)


def _alike(t: Translator, scale: Value, zero: Value) -> tuple[Value, Value]:
    """Return scale and zero point with the same shape; single values become scalars."""
    scale = _scalar_of(t, scale)
    if zero is None:
        return scale, None
    return scale, _scalar_of(t, zero) if t.rank(scale) else t.reshape(zero, [])


def _scalar_of(t: Translator, x: Value) -> Value:
    """Reshape a one-element vector to a scalar; return other values unchanged."""
    return t.reshape(x, []) if t.shape(x) == [1] else x


@ROWS.row("DequantizeLinear", "com.microsoft::DequantizeLinear")
def dequantize_linear(t: Translator, n: Node, x: Value, scale: Value, zero: Value = None) -> Any:
    dtype = dtype_name(n.attr("output_dtype")) if n.attr("output_dtype") else t.dtype(scale)
    if isinstance(x, Codes):
        wide, axis, block = decode(t, x), n.attr("axis", 1), n.attr("block_size") or 0
        if zero is not None:
            zero = decode(t, zero)
            wide = t.op("subtract", wide, _along(t, wide, zero, axis, block))
        scale = decode(t, scale) if isinstance(scale, Codes) else t.cast(scale, "float32")
        return t.cast(t.op("multiply", wide, _along(t, wide, scale, axis, block)), dtype)
    return t.cast(
        dequantize(t, x, scale, zero, n.attr("axis", 1), n.attr("block_size") or 0), dtype
    )


def dequantize(
    t: Translator, x: Value, scale: Value, zero: Value, axis: int = 1, block: int = 0
) -> Value:
    """Return (x - zero) * scale."""
    wide, _ = t.promote(scale, "float32", "float64")
    if t.dtype(x) == "int32":  # the bias of a quantized layer, without a zero point
        real = centered(t, x, zero, axis)
        real = t.op("multiply", real, t.cast(_along(t, real, wide, axis, block), "float64"))
        return t.cast(real, t.dtype(wide))
    wide, zero = _alike(t, wide, zero)
    return t.op("dequantize", x, wide, zero, axis=axis, block_size=block)


@ROWS.row("DynamicQuantizeLinear")
def dynamic_quantize(t: Translator, n: Node, x: Value) -> Any:
    low = t.op("minimum", t.op("min", x), 0)
    high = t.op("maximum", t.op("max", x), 0)
    scale = t.op("divide", t.op("subtract", high, low), 255.0)
    safe = t.op("where", t.op("equal", scale, 0), 1.0, scale)
    start = t.op(
        "round", t.op("clip", t.op("divide", t.op("negative", low), safe), min=0.0, max=255.0)
    )
    zero = t.cast(start, "uint8")
    return t.op("quantize", x, safe, zero, dtype="uint8"), scale, zero


def centered(t: Translator, x: Value, zero: Value, axis: int, dtype: str = "float64") -> Value:
    """Return x - zero in a float dtype; sums of byte products are exact in float64."""
    wide = t.cast(x, dtype)
    if zero is None:
        return wide
    zero = _along(t, wide, t.cast(zero, dtype), axis, 0)
    return t.op("subtract", wide, zero)


@ROWS.row("MatMulInteger")
def matmul_integer(
    t: Translator, n: Node, a: Value, b: Value, a0: Value = None, b0: Value = None
) -> Any:
    return exact_product(t, a, b, a0, b0)


def exact_product(t: Translator, a: Value, b: Value, a0: Value = None, b0: Value = None) -> Value:
    """Return the matrix product of centered bytes, int32."""
    pairs = (a, a0, max(t.rank(a) - 2, 0)), (b, b0, t.rank(b) - 1)
    return _exact(t, *pairs, lambda x, y: t.op("matmul", x, y), -2)


@ROWS.row("ConvInteger")
def conv_integer(
    t: Translator, n: Node, x: Value, w: Value, x0: Value = None, w0: Value = None
) -> Any:
    return exact_conv(t, n, x, w, x0, w0)


def exact_conv(t: Translator, n: Node, x: Value, w: Value, x0: Value, w0: Value) -> Value:
    """Return the convolution of centered bytes, int32."""
    flags, axes = _windows(n), tuple(range(1, t.rank(w)))
    multiply = lambda x, w: call_row(t, "Conv", x, w, **flags)  # noqa: E731
    return _exact(t, (x, x0, 1), (w, w0, 0), multiply, axes)


def _exact(
    t: Translator,
    x: tuple[Value, Value, int],
    w: tuple[Value, Value, int],
    multiply: Callable[[Value, Value], Value],
    axes: int | tuple[int, ...],
) -> Value:
    """Sum products of bytes exactly, in float32 if no sum reaches 2**24; `axes` of w are summed.

    `x` and `w` are bytes, their zero point and its axis. Known weights with larger sums are split:
    w = 16 * high + low.
    """
    count = _count_parts(t, *w, axes)
    dtype = "float32" if count else "float64"
    wide, weight = centered(t, *x, dtype), centered(t, *w, dtype)
    if count < 2:
        return t.cast(multiply(wide, weight), "int32")
    high = t.op("round", t.op("multiply", weight, 1 / 16))
    low = t.op("subtract", weight, t.op("multiply", high, 16))
    found = [t.cast(multiply(wide, part), "int32") for part in (low, high)]
    return t.op("add", found[0], t.op("multiply", found[1], 16))


def _count_parts(
    t: Translator, codes: Value, zero: Value, axis: int, axes: int | tuple[int, ...]
) -> int:
    """Return in how many parts of exact sums weights must be split, or 0 if this is unknown."""
    known, start = t.array(codes), None if zero is None else t.array(zero)
    if known is None or not known.size or (zero is not None and start is None):
        return 0
    weight = known.astype(np.float32)
    if start is not None:
        shape = [-1 if i == axis else 1 for i in range(weight.ndim)]
        weight -= start.astype(np.float32).reshape(shape if start.size > 1 else [])
    high = np.round(weight / 16)
    for count, parts in ((1, [weight]), (2, [weight - 16 * high, high])):
        if all(np.abs(part).sum(axis=axes).max() * 255 <= 2**24 for part in parts):
            return count
    return 0


def _windows(n: Node) -> dict[str, Any]:
    names = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    return {name: n.attrs[name] for name in names if name in n.attrs}


@ROWS.row("QLinearMatMul")
def qlinear_matmul(t: Translator, n: Node, *inputs: Value) -> Any:
    a, a_scale, a0, b, b_scale, b0, y_scale, y0 = inputs
    found = exact_product(t, a, b, a0, b0)
    return _requantized(t, found, (a_scale, b_scale), y_scale, y0)


def _requantized(t: Translator, x: Value, scales: Any, scale: Value, zero: Value) -> Value:
    factor = t.scalar(1.0, "float64")
    for each in scales:
        factor = t.op("multiply", factor, t.cast(_scalar_of(t, each), "float64"))
    factor = t.op("divide", factor, t.cast(_scalar_of(t, scale), "float64"))
    real = t.op("multiply", t.cast(x, "float64"), factor)
    return t.op(
        "quantize", real, t.scalar(1.0, "float64"), t.reshape(zero, []), dtype=t.dtype(zero)
    )


@ROWS.row("QLinearConv")
def qlinear_conv(t: Translator, n: Node, *inputs: Value) -> Any:
    x, x_scale, x0, w, w_scale, w0, y_scale, y0, *bias = inputs
    found = exact_conv(t, n, x, w, x0, w0)
    column = [-1, *[1] * (t.rank(w) - 2)]
    if bias and bias[0] is not None:
        found = t.op("add", found, t.reshape(bias[0], column))
    if t.rank(w_scale) == 1 and t.shape(w_scale) != [1]:
        w_scale = t.reshape(w_scale, column)
    return _requantized(t, found, (x_scale, w_scale), y_scale, y0)


@ROWS.row("com.microsoft::MatMulNBits")
def matmul_n_bits(
    t: Translator,
    n: Node,
    a: Value,
    b: Value,
    scales: Value,
    zeros: Value = None,
    groups: Value = None,
    bias: Value = None,
) -> Any:
    bits, rows, columns = n.attr("bits", 4), n.attr("K"), n.attr("N")
    if bits not in (2, 4, 8) or groups is not None:
        raise DeclinedError(f"bits must be 2, 4 or 8 without g_idx, got {bits}")
    codes = _unpack(t.need(b, "B"), bits)
    factors = t.need(scales, "scales").reshape(columns, -1)
    starts: Any = 2 ** (bits - 1)
    if zeros is not None:
        given = t.need(zeros, "zero_points")
        starts = (
            given.reshape(columns, -1)
            if given.dtype != np.uint8
            else _unpack(given.reshape(columns, -1), bits)
        )
        starts = starts[:, : factors.shape[1], None]
    weight = (codes.reshape(columns, factors.shape[1], -1) - starts) * factors[:, :, None]
    weight = weight.reshape(columns, -1)[:, :rows].astype(factors.dtype)
    found = product(t, a, np.ascontiguousarray(weight.T))
    return found if bias is None else t.op("add", found, bias)


def _unpack(packed: Any, bits: int) -> Any:
    """Unpack the values of each byte, the lowest bits first."""
    parts = [(packed >> start) & (2**bits - 1) for start in range(0, 8, bits)]
    pairs = np.stack(parts, axis=-1)
    return pairs.reshape(*packed.shape[:-1], -1).astype(np.int16)
