"""Rows of operators that convert elements to a dtype or create elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from opwright_onnx.dtypes import array_dtype, dtype_name
from opwright_onnx.errors import DeclinedError
from opwright_onnx.translate.codes import KINDS, Codes, decode, encode
from opwright_onnx.translate.node import Node
from opwright_onnx.translate.table import Rows
from opwright_onnx.translate.translator import Translator
from opwright_onnx.translate.values import Value

ROWS = Rows()


@ROWS.row("Cast")
def cast(t: Translator, n: Node, x: Value) -> Any:
    return convert(t, n, x, KINDS.get(n.attr("to")) or dtype_name(n.attr("to")))


@ROWS.row("CastLike")
def cast_like(t: Translator, n: Node, x: Value, like: Value) -> Any:
    return convert(t, n, x, t.dtype(like))


def convert(t: Translator, n: Node, x: Value, dtype: str) -> Value:
    """Cast `x` to a dtype; float8 conversions saturate unless the node disables it."""
    if t.dtype(x) == dtype:
        return x if isinstance(x, Codes) else t.op("assign", x)
    if isinstance(x, Codes):
        x = decode(t, x)
    if dtype in KINDS.values():
        if t.dtype(x).startswith("float8"):
            x = t.cast(x, "float32")
        rounding = n.attr("round_mode", "up") if dtype == "float8_e8m0fnu" else "nearest"
        return encode(t, x, dtype, bool(n.attr("saturate", 1)), rounding)
    if dtype.startswith("float8") and n.attr("saturate", 1) and not t.dtype(x).startswith("float8"):
        limit = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}[dtype]
        bounded = t.op("clip", x, min=-limit, max=limit)
        x = t.op("where", t.op("isnan", x), x, bounded)
    return t.cast(x, dtype)


@ROWS.row("BitCast")
def bit_cast(t: Translator, n: Node, x: Value) -> Any:
    return t.op("bit_cast", x, dtype=dtype_name(n.attr("to")))


@ROWS.row("Constant")
def constant(t: Translator, n: Node) -> Any:
    found = {k: v for k, v in n.attrs.items() if k.startswith(("value", "sparse_value"))}
    for name, value in found.items():
        kinds = {"float": "float32", "floats": "float32", "string": "O", "strings": "O"}
        dtype = kinds.get(name.removeprefix("value_"), "int64")
        array = value if isinstance(value, np.ndarray) else np.array(value, dtype)
        t.name(array, n.proto.output[0])
        return array
    raise DeclinedError("the node must have a value attribute, got none")


@ROWS.row("ConstantOfShape")
def constant_of_shape(t: Translator, n: Node, shape: Value) -> Any:
    value = n.attr("value", np.zeros(1, np.float32)).reshape(-1)
    return t.full(value[0].item(), t.sizes(shape), array_dtype(value))


@ROWS.row("EyeLike")
def eye_like(t: Translator, n: Node, x: Value) -> Any:
    dtype = dtype_name(n.attr("dtype")) if n.attr("dtype") else t.dtype(x)
    rows, columns = t.dim(x, 0), t.dim(x, 1)
    if not isinstance(columns, int):
        places = [t.op("arange", stop=count, dtype="int64") for count in (rows, columns)]
        column = t.op("add", t.reshape(places[0], [-1, 1]), n.attr("k"))
        return t.cast(t.op("equal", places[1], column), dtype)
    return t.cast(t.op("eye", n_rows=rows, n_cols=columns, k=n.attr("k"), dtype="float32"), dtype)


@ROWS.row("Range")
def arange(t: Translator, n: Node, start: Value, limit: Value, delta: Value) -> Any:
    dtype = t.dtype(start)
    values = {"start": start, "stop": limit, "step": delta}
    if not dtype.startswith("int") and any(t.array(value) is None for value in values.values()):
        return _float_range(t, start, limit, delta)
    bounds = {}
    for name, value in values.items():
        array = t.array(value)
        bounds[name] = t.sizes(value)[0] if array is None else array.reshape(-1)[0].item()
    return t.op("arange", dtype=dtype, **bounds)


def _float_range(t: Translator, start: Value, limit: Value, delta: Value) -> Value:
    """Return start + i * delta for each i below (limit - start) / delta, which a run computes."""
    start, limit, delta = (t.reshape(value, []) for value in (start, limit, delta))
    ratio = t.op("divide", t.op("subtract", limit, start), delta)
    count = t.cast(t.op("maximum", t.op("ceil", ratio), 0), "int64")
    places = t.cast(t.op("arange", stop=t.reshape(count, [1]), dtype="int64"), t.dtype(start))
    return t.op("add", start, t.op("multiply", places, delta))


@ROWS.row("Shape")
def shape(t: Translator, n: Node, x: Value) -> Any:
    vector, rank = t.shape_vector(x), t.rank(x)
    bounds = n.attr("start", 0), n.attr("end", rank)
    start, end = (min(max(p + rank if p < 0 else p, 0), rank) for p in bounds)
    return t.slice(vector, [0], [start], [max(start, end)]) if (start, end) != (0, rank) else vector


@ROWS.row("Size")
def size(t: Translator, n: Node, x: Value) -> Any:
    return t.op("prod", t.shape_vector(x))


@ROWS.row("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike")
def random(t: Translator, n: Node, x: Value = None) -> Any:
    kind = t.dtype(x) if x is not None else "float32"
    dtype = dtype_name(n.attr("dtype")) if n.attr("dtype") else kind
    shape = n.attr("shape") if x is None else t.sizes(t.shape_vector(x))
    seed = {"seed": int(abs(n.attr("seed")))} if n.attr("seed") is not None else {}
    if "Normal" in n.op_type:
        bounds = {"mean": n.attr("mean"), "std": n.attr("scale")}
        return t.op("normal", shape=shape, dtype=dtype, **bounds, **seed)
    return t.op("uniform", shape=shape, dtype=dtype, min=n.attr("low"), max=n.attr("high"), **seed)


@ROWS.row("Bernoulli")
def bernoulli(t: Translator, n: Node, x: Value) -> Any:
    dtype = dtype_name(n.attr("dtype")) if n.attr("dtype") else t.dtype(x)
    return t.cast(t.op("bernoulli", x), dtype)
