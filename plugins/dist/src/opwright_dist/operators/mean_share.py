"""`dist.mean_share`, the contribution of a tensor to the mean over a group.

A program with this operator runs with any number of processes; lowering determines the number.
"""

from __future__ import annotations

from typing import Final

from opwright.op import BodyContext, GradientContext, OpMaker
from opwright_dist.groups.world import current_world
from opwright_dist.operators.description import add_group, same_shape

_FLOATS: Final = ("float16", "bfloat16", "float32", "float64")


def _body(b: BodyContext) -> None:
    share = 1.0 / current_world().group(b.attr("group"), b.type).size
    b.emit("scale", {"x": b.input("x")}, {"out": b.output("out")}, attrs={"scale": share})


def _gradient(g: GradientContext) -> None:
    attrs = {"group": g.attr("group")}
    grad = g.emit("dist.mean_share", {"x": g.output_grad("out")}, attrs=attrs)
    g.set_input_grad("x", grad)


MEAN_SHARE = add_group(
    OpMaker("dist.mean_share")
    .add_comment("out = x / n with n the number of processes of the group, without communication.")
    .add_input("x", "any shape")
    .dtypes(*_FLOATS)
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
).build(infer_shape=same_shape, body=_body, gradient=_gradient)
