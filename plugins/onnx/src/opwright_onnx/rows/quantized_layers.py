"""Rows of the quantized layers of ONNX Runtime, which compute with dequantized numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from opwright_onnx.errors import DeclinedError
from opwright_onnx.rows.quantization import (
    centered,
    dequantize,
    dynamic_quantize,
    exact_product,
    quantize,
)
from opwright_onnx.translate.node import Node
from opwright_onnx.translate.table import Rows
from opwright_onnx.translate.translator import Translator
from opwright_onnx.translate.values import Value
from opwright_onnx.translate.walking import call_row

ROWS = Rows()

_DOMAIN: Final = "com.microsoft"
_PAIRS: Final = {"QLinearAdd": "add", "QLinearMul": "multiply"}


@ROWS.row(f"{_DOMAIN}::QLinearAdd", f"{_DOMAIN}::QLinearMul")
def linear_pair(t: Translator, n: Node, *inputs: Value) -> Any:
    a, a_scale, a0, b, b_scale, b0, scale, zero = [*inputs, None][:8]
    x, y = dequantize(t, a, a_scale, a0), dequantize(t, b, b_scale, b0)
    return quantize(t, t.op(_PAIRS[n.op_type], x, y), scale, zero, t.dtype(a))


def _leaky_relu(t: Translator, n: Node, x: Value) -> Value:
    return t.op("leaky_relu", x, alpha=n.attr("alpha", 0.01))


def _softmax(t: Translator, n: Node, x: Value) -> Value:
    axis = t.axis(n.attr("axis", -1), t.rank(x))
    if n.attr("opset", 13) < 13 and axis != t.rank(x) - 1:
        raise DeclinedError(f"axis must be the last axis before opset 13, got {axis}")
    return t.op("softmax", x, axis=axis)


def _pool(t: Translator, n: Node, x: Value) -> Value:
    if n.attr("channels_last"):
        raise DeclinedError("channels_last must be 0, got 1")
    attrs = {name: value for name, value in n.attrs.items() if name != "channels_last"}
    return call_row(t, n.op_type.removeprefix("QLinear"), x, **attrs)


_UNARY: Final[dict[str, Callable[[Translator, Node, Value], Value]]] = {
    "QLinearAveragePool": _pool,
    "QLinearGlobalAveragePool": _pool,
    "QLinearLeakyRelu": _leaky_relu,
    "QLinearSigmoid": lambda t, n, x: t.op("sigmoid", x),
    "QLinearSoftmax": _softmax,
}


@ROWS.row(*[f"{_DOMAIN}::{name}" for name in _UNARY])
def linear_unary(t: Translator, n: Node, *inputs: Value) -> Any:
    x, x_scale, x0, scale, zero = [*inputs, None][:5]
    found = _UNARY[n.op_type](t, n, dequantize(t, x, x_scale, x0))
    return quantize(t, found, scale, zero, t.dtype(x))


@ROWS.row(f"{_DOMAIN}::QLinearConcat")
def linear_concat(t: Translator, n: Node, scale: Value, zero: Value, *parts: Value) -> Any:
    triples = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    wide = [dequantize(t, *triple) for triple in triples]
    found = t.op("concat", wide, axis=n.attr("axis"))
    return quantize(t, found, scale, zero, t.dtype(zero))


@ROWS.row(f"{_DOMAIN}::QLinearWhere")
def linear_where(t: Translator, n: Node, condition: Value, *inputs: Value) -> Any:
    x, x_scale, x0, y, y_scale, y0, scale, zero = inputs
    found = t.op("where", condition, dequantize(t, x, x_scale, x0), dequantize(t, y, y_scale, y0))
    return quantize(t, found, scale, zero, t.dtype(x))


@ROWS.row(f"{_DOMAIN}::QGemm")
def q_gemm(t: Translator, n: Node, *inputs: Value) -> Any:
    a, a_scale, a0, b, b_scale, b0, c, scale, zero = [*inputs, None, None, None][:9]
    a = t.transpose(a, [1, 0]) if n.attr("transA") else a
    if n.attr("transB"):
        b = t.transpose(b, [1, 0])
    found = exact_product(t, a, b, a0, b0)
    if c is not None:
        found = t.op("add", found, c)
    factor = _product(t, a_scale, b_scale)
    alpha = n.attr("alpha", 1.0)
    factor = factor if alpha == 1 else t.op("multiply", factor, alpha)
    found = t.op("multiply", t.cast(found, "float32"), factor)
    return found if scale is None else quantize(t, found, scale, zero, t.dtype(zero))


@ROWS.row(f"{_DOMAIN}::MatMulIntegerToFloat")
def matmul_to_float(t: Translator, n: Node, *inputs: Value) -> Any:
    a, b, a_scale, b_scale, a0, b0, bias = [*inputs, None, None, None][:7]
    return _scaled_product(t, (a, a_scale, a0), (b, b_scale, b0), bias)


@ROWS.row(f"{_DOMAIN}::DynamicQuantizeMatMul")
def dynamic_matmul(t: Translator, n: Node, *inputs: Value) -> Any:
    a, b, b_scale, b0, bias = [*inputs, None, None][:5]
    return _scaled_product(t, dynamic_quantize(t, n, a), (b, b_scale, b0), bias)


def _scaled_product(t: Translator, x: Any, y: Any, bias: Value) -> Value:
    """Multiply two triples (codes, scale, zero) and add a bias; the result is float32."""
    (a, a_scale, a0), (b, b_scale, b0) = x, y
    found = t.cast(exact_product(t, a, b, a0, b0), "float32")
    found = t.op("multiply", found, _product(t, a_scale, b_scale))
    return found if bias is None else t.op("add", found, bias)


def _product(t: Translator, a_scale: Value, b_scale: Value) -> Value:
    """Return the factor of a product: one number, or one for each column."""
    a_scale = t.reshape(a_scale, []) if t.shape(a_scale) == [1] else a_scale
    if t.rank(a_scale):
        raise DeclinedError(f"a_scale must be one number, got the shape {t.shape(a_scale)}")
    return t.op("multiply", b_scale, a_scale)


@ROWS.row(f"{_DOMAIN}::DynamicQuantizeLSTM")
def dynamic_lstm(t: Translator, n: Node, *inputs: Value) -> Any:
    """Append an LSTM with dequantized weights; ONNX Runtime also quantizes the numbers it reads."""
    given = [*inputs, *[None] * (12 - len(inputs))]
    x, w, r, *rest = given[:8]
    w, r = (
        t.transpose(_real(t, codes, *given[i : i + 2]), [0, 2, 1]) for codes, i in ((w, 8), (r, 10))
    )
    return call_row(t, "LSTM", x, w, r, *rest, outputs=3, **n.attrs)


def _real(t: Translator, codes: Value, scale: Value, zero: Value) -> Value:
    """Dequantize weights [directions, inputs, columns]; scales are per direction or column."""
    directions, *columns = t.known_shape(scale, "scale")
    shape = [directions, 1, *(columns or [1])]
    wide = t.cast(codes, "float32")
    if zero is not None:
        wide = t.op("subtract", wide, t.reshape(t.cast(zero, "float32"), shape))
    return t.op("multiply", wide, t.reshape(scale, shape))


@ROWS.row(f"{_DOMAIN}::QAttention")
def q_attention(t: Translator, n: Node, *inputs: Value) -> Any:
    given = [*inputs, *[None] * (9 - len(inputs))]
    x, w, bias, x_scale, w_scale, mask, x0, w0, past = given
    if n.attr("do_rotary"):
        raise DeclinedError("do_rotary must be 0, got 1")
    weights = t.op("multiply", centered(t, w, w0, 1, "float32"), w_scale)
    x = t.op("multiply", centered(t, x, x0, 1, "float32"), x_scale)
    attrs = {k: v for k, v in n.attrs.items() if k != "do_rotary"}
    call = [x, weights, bias, mask, past]
    return call_row(t, "Attention", *call, domain=_DOMAIN, outputs=n.n_outputs, **attrs)
