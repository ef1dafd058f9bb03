"""Rows of the fused transformer operators that ONNX Runtime's optimizers emit."""

from __future__ import annotations

from typing import Any

from opwright_onnx.errors import DeclinedError
from opwright_onnx.translate.node import Node
from opwright_onnx.translate.table import Rows
from opwright_onnx.translate.translator import Translator
from opwright_onnx.translate.values import Value
from opwright_onnx.translate.walking import call_row

ROWS = Rows()

_DOMAIN = "com.microsoft"

_ACTIVATIONS = {
    "Clip": ("min", "max"),
    "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "LeakyRelu": ("alpha",),
    "Relu": (),
    "Sigmoid": (),
    "Softplus": (),
    "Softsign": (),
    "Tanh": (),
}
"""The activations of fused nodes, with the attributes of their parameters."""

_NAMES = {"HardSigmoid": "hard_sigmoid", "LeakyRelu": "leaky_relu"}


@ROWS.row(f"{_DOMAIN}::Gelu", f"{_DOMAIN}::FastGelu", f"{_DOMAIN}::BiasGelu")
def gelu(t: Translator, n: Node, x: Value, bias: Value = None) -> Any:
    x = x if bias is None else t.op("add", x, bias)
    return t.op("gelu", x, approximate="tanh" if n.op_type == "FastGelu" else "none")


@ROWS.row(f"{_DOMAIN}::QuickGelu")
def quick_gelu(t: Translator, n: Node, x: Value) -> Any:
    return t.op("swish", x, beta=n.attr("alpha", 1.702))


@ROWS.row(f"{_DOMAIN}::FusedMatMul", f"{_DOMAIN}::TransposeMatMul")
def fused_matmul(t: Translator, n: Node, x: Value, y: Value) -> Any:
    x = _with_rows_behind(t, x) if n.attr("transBatchA") else x
    y = _with_rows_behind(t, y) if n.attr("transBatchB") else y
    flags = {"transpose_x": bool(n.attr("transA")), "transpose_y": bool(n.attr("transB"))}
    found = t.op("matmul", x, y, **{k: v for k, v in flags.items() if v})
    alpha = n.attr("alpha", 1.0)
    return found if alpha == 1 else t.op("multiply", found, alpha)


def _with_rows_behind(t: Translator, x: Value) -> Value:
    """Move the first axis, the rows of each matrix, behind the other axes of the batch."""
    rank = t.rank(x)
    return t.transpose(x, [*range(1, rank - 1), 0, rank - 1])


@ROWS.row(f"{_DOMAIN}::FusedConv")
def fused_conv(
    t: Translator, n: Node, x: Value, w: Value, bias: Value = None, added: Value = None
) -> Any:
    own = ("activation", "activation_params")
    windows = {k: v for k, v in n.attrs.items() if k not in own}
    found = call_row(t, "Conv", x, w, bias, **windows)
    found = found if added is None else t.op("add", found, added)
    return _activated(t, n.attr("activation"), n.attr("activation_params") or [], found)


@ROWS.row(f"{_DOMAIN}::FusedGemm")
def fused_gemm(t: Translator, n: Node, a: Value, b: Value, c: Value = None) -> Any:
    own = {k: v for k, v in n.attrs.items() if not k.startswith("activation")}
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    numbers = [n.attr(name) for name in names if n.attr(name) is not None]
    return _activated(t, n.attr("activation"), numbers, call_row(t, "Gemm", a, b, c, **own))


def _activated(t: Translator, name: str | None, numbers: list[float], x: Value) -> Value:
    """Apply the activation that a node names; `numbers` are its parameters."""
    if not name:
        return x
    if name not in _ACTIVATIONS or len(numbers) > len(_ACTIVATIONS[name]):
        raise DeclinedError(f"activation must be one of {sorted(_ACTIVATIONS)}, got {name!r}")
    attrs: dict[str, Any] = dict(zip(_ACTIVATIONS[name], numbers))
    return t.op(_NAMES.get(name, name.lower()), x, **attrs)


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
    if n.attr("scale", 1.0) != 1:
        raise DeclinedError(f"scale must be 1, got {n.attr('scale')}")
    is_flat = t.rank(x) == 3
    if is_flat:
        x = _with_heads(t, n, x, 2 * t.known_dim(cos, 1, "cos_cache"))
    if t.shape(positions) == [1]:
        own = t.op("arange", start=0, stop=t.dim(x, 2), step=1, dtype="int64")
        positions = t.op("add", t.op("unsqueeze", own, axis=[0]), positions)
    cosines, sines = (t.op("gather", table, positions, axis=0) for table in (cos, sin))
    cosines, sines = (t.op("unsqueeze", table, axis=[1]) for table in (cosines, sines))
    found = turn_start(t, x, cosines, sines, bool(n.attr("interleaved", 0)))
    if not is_flat:
        return found
    columns = t.known_dim(x, 1, "heads") * t.known_dim(x, 3, "input")
    return t.reshape(t.transpose(found, [0, 2, 1, 3]), [t.dim(x, 0), t.dim(x, 2), columns])


def _with_heads(t: Translator, n: Node, x: Value, size: int) -> Value:
    """Reshape [batch, length, columns] to [batch, heads, length, size]."""
    width = t.known_dim(x, 2, "input")
    heads = n.attr("num_heads") or width // size
    parts = t.reshape(x, [t.dim(x, 0), t.dim(x, 1), heads, width // heads])
    return t.transpose(parts, [0, 2, 1, 3])


def turn_start(t: Translator, x: Value, cos: Value, sin: Value, interleaved: bool) -> Value:
    """Rotate the first columns of `x`, twice as many as the tables have."""
    width = 2 * t.known_dim(cos, -1, "cos_cache")
    size = t.known_dim(x, -1, "input")
    if width == size:
        return turn(t, x, cos, sin, interleaved)
    first = turn(t, t.slice(x, [3], [0], [width]), cos, sin, interleaved)
    return t.op("concat", [first, t.slice(x, [3], [width], [size])], axis=3)


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
