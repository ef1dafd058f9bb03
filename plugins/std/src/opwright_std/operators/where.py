"""where: element-wise selection of one of two values."""

from __future__ import annotations

import numpy as np

from opwright.op import GradientContext, OpMaker, elementwise_shape
from opwright_std.compositions.chain_rules import set_broadcast_grad
from opwright_std.numerics.dtypes import Array


def where(condition: Array, x: Array, y: Array, out: Array) -> None:
    np.copyto(out, y)
    np.copyto(out, x, where=condition)


def _where_gradient(g: GradientContext) -> None:
    condition, grad = g.input("condition"), g.output_grad("out")
    zero = g.emit("fill_like", {"x": grad}, attrs={"value": 0.0})
    for slot, other, x, y in (("x", "y", grad, zero), ("y", "x", zero, grad)):
        if g.wants(slot):
            part = g.emit("where", {"condition": condition, "x": x, "y": y})
            set_broadcast_grad(g, slot, part, ["condition", other])


WHERE = (
    OpMaker("where")
    .add_comment("out = x where condition is true, else y. All three broadcast.")
    .add_input("condition", "bool, any shape that broadcasts with x and y")
    .dtypes("bool")
    .add_input("x", "any shape, any dtype")
    .add_input("y", "any shape")
    .same_dtype_as("x")
    .add_output("out", "the broadcast shape, dtype of x")
    .same_dtype_as("x")
    .dispatch_on("x")
    .build(infer_shape=elementwise_shape("condition", "x", "y"), gradient=_where_gradient)
)
