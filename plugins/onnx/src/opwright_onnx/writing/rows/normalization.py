"""Rows of normalizations, Fourier transforms and attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from opwright_onnx.dtypes import numpy_dtype
from opwright_onnx.errors import DeclinedError
from opwright_onnx.translate.table import Rows
from opwright_onnx.writing.writer import Op, Writer

ROWS = Rows()

MAX_HEADS: int = 2**16


def factors(w: Writer, op: Op, sizes: Any) -> tuple[str, str]:
    """Return scale and bias; absent inputs are replaced by ones and zeros of a known size."""
    found = []
    for slot, value in (("scale", 1), ("bias", 0)):
        if not op.inputs.get(slot) and min(sizes, default=1) < 0:
            raise DeclinedError(f"the shape of {slot} must be known")
        found.append(w.input(op, slot) or w.const(np.full(sizes, value), w.dtype(op)))
    return found[0], found[1]


@ROWS.row("batch_norm")
def batch_norm(w: Writer, op: Op) -> Any:
    names = [w.input(op, slot) for slot in ("x", "scale", "bias", "mean", "variance")]
    if op.attrs["training"]:
        raise DeclinedError("training must be false")
    out = w.node("BatchNormalization", *names, epsilon=op.attrs["epsilon"])
    return out, names[3], names[4]


@ROWS.row("layer_norm")
def layer_norm(w: Writer, op: Op) -> Any:
    axis, shape = op.attrs["begin_norm_axis"], w.shape(op)
    scale, bias = factors(w, op, shape[axis:])
    if not op.inputs.get("bias"):
        bias = ""
    attrs: dict[str, Any] = {"axis": axis, "epsilon": op.attrs["epsilon"]}
    if not w.wants(op, "mean") and not w.wants(op, "inv_std"):
        return w.node("LayerNormalization", w.input(op, "x"), scale, bias, **attrs)
    if w.dtype(op) != "float32":
        raise DeclinedError("mean and deviation must be float32")
    results = w.node("LayerNormalization", w.input(op, "x"), scale, bias, outputs=3, **attrs)
    rows = w.ints([-1] if len(w.shape(op, "mean")) == 1 else w.known_shape(op, "mean"))
    return results[0], *(w.node("Reshape", r, rows) for r in results[1:])


@ROWS.row("group_norm")
def group_norm(w: Writer, op: Op) -> Any:
    if w.opset < 21 or w.wants(op, "mean") or w.wants(op, "inv_std"):
        raise DeclinedError(
            "ONNX's GroupNormalization has a scale for each channel only since opset 21"
        )
    attrs: dict[str, Any] = {"num_groups": op.attrs["groups"], "epsilon": op.attrs["epsilon"]}
    names = factors(w, op, w.shape(op)[1:2])
    return w.node("GroupNormalization", w.input(op, "x"), *names, **attrs)


@ROWS.row("instance_norm")
def instance_norm(w: Writer, op: Op) -> Any:
    names = factors(w, op, w.shape(op)[1:2])
    epsilon = op.attrs["epsilon"]
    return w.node("InstanceNormalization", w.input(op, "x"), *names, epsilon=epsilon)


@ROWS.row("rms_norm")
def rms_norm(w: Writer, op: Op) -> Any:
    x, scale, dtype, rank = w.input(op, "x"), w.input(op, "scale"), w.dtype(op), len(w.shape(op))
    axis = op.attrs["begin_norm_axis"] % rank
    if w.opset >= 23 and scale:
        return w.node("RMSNormalization", x, scale, axis=axis, epsilon=op.attrs["epsilon"])
    wide = w.cast(x, dtype if dtype in ("float32", "float64") else "float32")
    squares = w.node("ReduceMean", w.node("Mul", wide, wide), w.ints(range(axis, rank)))
    root = w.node("Sqrt", w.node("Add", squares, w.number(op.attrs["epsilon"], wide)))
    found = w.cast(w.node("Div", wide, root), dtype)
    return w.node("Mul", found, scale) if scale else found


@ROWS.row("fft", "ifft", "rfft")
def fourier(w: Writer, op: Op) -> Any:
    if w.opset < 20 or op.attrs["norm"] != "backward":
        raise DeclinedError("ONNX's DFT has an axis input only since opset 20, and no norm")
    x, axis, length = w.input(op, "x"), op.attrs["axis"], op.attrs.get("n")
    if op.type == "rfft":
        x = w.node("Unsqueeze", x, w.ints([-1]))
    place = w.const(axis - 1 if axis < 0 else axis, "int64")
    flags: dict[str, Any] = {"onesided": int(op.type == "rfft"), "inverse": int(op.type == "ifft")}
    count = "" if length is None else w.const(length, "int64")
    return w.node("DFT", x, count, place, **flags)


@ROWS.row("irfft")
def inverse_real(w: Writer, op: Op) -> Any:
    x, axis, length = w.input(op, "x"), op.attrs["axis"], op.attrs["n"]
    if w.opset < 20 or op.attrs["norm"] != "backward":
        raise DeclinedError("ONNX's DFT has an axis input only since opset 20, and no norm")
    place = axis - 1 if axis < 0 else axis
    half = w.shape(op)[place]
    if half != length // 2 + 1:
        raise DeclinedError("x must have n // 2 + 1 elements, as returned by rfft")
    # The other half is the conjugate in reverse order; the transform of both halves is real.
    cut = [w.ints([i]) for i in ((length - 1) // 2, 0, place, -1)]
    signs = w.cast(w.const([1.0, -1.0]), w.dtype(op))
    rest = w.node("Mul", w.node("Slice", x, *cut), signs)
    whole = w.node("Concat", x, rest, axis=place)
    found = w.node("DFT", whole, "", w.const(place, "int64"), inverse=1)
    return w.node("Gather", found, w.const(0, "int64"), axis=-1)


@ROWS.row("scaled_dot_product_attention")
def attention(w: Writer, op: Op) -> Any:
    q, k, v, mask = (w.input(op, slot) for slot in ("q", "k", "v", "mask"))
    shape, others, dtype = w.shape(op, "q"), w.shape(op, "k"), w.dtype(op, "q")
    plain = {"softcap": 0.0, "window": (), "from_end": False}
    if any(op.attrs[name] != value for name, value in plain.items()):
        raise DeclinedError("only the body of the operator supports softcap and windows")
    rank, scale = len(shape), op.attrs.get("scale")
    if rank > 2 and shape[-3] != others[-3]:
        if min(shape[-3], others[-3]) < 1:
            raise DeclinedError("the numbers of heads must be known")
        if shape[-3] > MAX_HEADS:
            raise DeclinedError(
                f"the operator must have at most {MAX_HEADS} heads, got {shape[-3]}"
            )
        index = w.ints(np.arange(shape[-3]) // (shape[-3] // others[-3]))
        k, v = (w.node("Gather", x, index, axis=rank - 3) for x in (k, v))
    if scale is None and shape[-1] < 0:
        raise DeclinedError("the head size must be known")
    factor = 1 / max(shape[-1], 1) ** 0.5 if scale is None else scale
    turned = w.node("Transpose", k, perm=[*range(rank - 2), rank - 1, rank - 2])
    scores = w.node("Mul", w.node("MatMul", q, turned), w.const(factor, dtype))
    hidden = w.const(-np.inf, dtype)
    if mask and w.dtype(op, "mask") == "bool":
        scores = w.node("Where", mask, scores, hidden)
    elif mask:
        is_hidden = w.node("Equal", mask, w.number(-np.inf, mask))
        scores = w.node("Where", is_hidden, hidden, w.node("Add", scores, w.cast(mask, dtype)))
    if op.attrs["causal"]:
        ones = w.tensor(np.ones(1, np.float32))
        sizes = w.node("Shape", scores, start=rank - 2)
        square = w.node("ConstantOfShape", sizes, value=ones, dtype="float32")
        seen = w.cast(w.node("Trilu", square, upper=0), "bool")
        scores = w.node("Where", seen, scores, hidden)
    highest = w.node("ReduceMax", scores, w.ints([-1]), keepdims=1)
    is_hidden = w.node("Equal", highest, hidden)  # a fully masked row
    zero = w.const(0, dtype)
    weights = w.node("Softmax", w.node("Where", is_hidden, zero, scores), axis=-1)
    return w.node("MatMul", w.node("Where", is_hidden, zero, weights), v)


def _check_blocks(w: Writer, op: Op) -> None:
    if op.attrs["block_size"] and w.opset < 21:
        raise DeclinedError("ONNX supports block scales only since opset 21")


@ROWS.row("quantize")
def quantize(w: Writer, op: Op) -> Any:
    _check_blocks(w, op)
    dtype, names = op.attrs["dtype"], [w.input(op, s) for s in ("x", "scale", "zero_point")]
    attrs: dict[str, Any] = {"axis": op.attrs["axis"], "block_size": op.attrs["block_size"] or None}
    if dtype.startswith("float8"):
        attrs["saturate"] = 1
    if not names[2] and w.shape(op, "scale") == ():
        names[2] = w.const(0, dtype)
    elif not names[2]:
        zeros = w.tensor(np.zeros(1, numpy_dtype(dtype)))
        names[2] = w.node("ConstantOfShape", w.node("Shape", names[1]), value=zeros, dtype=dtype)
    return w.node("QuantizeLinear", *names, dtype=dtype, **attrs)


@ROWS.row("dequantize")
def dequantize(w: Writer, op: Op) -> Any:
    _check_blocks(w, op)
    names = [w.input(op, slot) for slot in ("x", "scale", "zero_point")]
    block = op.attrs["block_size"] or None
    return w.node("DequantizeLinear", *names, axis=op.attrs["axis"], block_size=block)
