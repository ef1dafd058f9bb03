"""Rows of matrix products and linear algebra."""

from __future__ import annotations

from typing import Any

import opwright as ow
from opwright_onnx.translate.node import Node
from opwright_onnx.translate.table import Rows
from opwright_onnx.translate.translator import Translator
from opwright_onnx.translate.values import FLOATS, Value
from opwright_onnx.translate.walking import knows_old

ROWS = Rows()


@ROWS.row("MatMul")
def matmul(t: Translator, n: Node, x: Value, y: Value) -> Any:
    return product(t, x, y)


def product(t: Translator, x: Value, y: Value, **flags: bool) -> Value:
    """Return a matrix product; integers are multiplied in float64, exactly up to 2**53."""
    x, dtype = t.promote(x, "float64", *FLOATS)
    y, _ = t.promote(y, "float64", *FLOATS)
    return t.cast(t.op("matmul", x, y, **flags), dtype)


@ROWS.row("Gemm")
@knows_old
def gemm(t: Translator, n: Node, a: Value, b: Value, c: Value = None) -> Any:
    alpha, beta, dtype = n.attr("alpha"), n.attr("beta"), t.dtype(a)
    if dtype not in FLOATS:
        a, b = t.cast(a, "float64"), t.cast(b, "float64")
        c = None if c is None else t.cast(c, "float64")
    is_turned = bool(n.attr("transB"))
    if is_turned and not isinstance(b, ow.Variable):  # once, when the model is loaded
        b, is_turned = t.transpose(b, [1, 0]), False
    flags = {"transpose_x": bool(n.attr("transA")), "transpose_y": is_turned}
    flags = {name: value for name, value in flags.items() if value}
    found = t.op("matmul", a, b, **flags)
    if alpha != 1:
        found = t.op("multiply", found, alpha)
    if c is not None and beta != 0:
        found = t.op("add", found, c if beta == 1 else t.op("multiply", c, beta))
    return t.cast(found, dtype)


@ROWS.row("Einsum")
def einsum(t: Translator, n: Node, *inputs: Value) -> Any:
    equation = n.attr("equation").replace(" ", "")
    return t.op("einsum", list(inputs), equation=equation)
