"""Stretch, which shows faint and bright stars in one image, composed of existing operators."""

import math

from opwright.op import BodyContext, OpMaker, same_shape_as


def write_body(b: BodyContext) -> None:
    """Write asinh(x / softness) / asinh(1 / softness)."""
    softness = b.attr("softness")
    x = b.emit("scale", {"x": b.input("x")}, attrs={"scale": 1 / softness})
    share = {"scale": 1 / math.asinh(1 / softness)}
    b.emit("scale", {"x": b.emit("asinh", {"x": x})}, {"out": b.output("out")}, share)


STRETCH = (
    OpMaker("sky.stretch")
    .add_comment(
        "Stretch, out = asinh(x / softness) / asinh(1 / softness): a line for small x, a logarithm "
        "for large ones, 1 at 1. Lupton et al., 2004."
    )
    .add_input("x", "any shape, float")
    .dtypes("float32", "float64")
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .add_attr("softness", float, "where the line ends")
    .default(0.1)
    .between(0.001, 1000.0)
    .build(infer_shape=same_shape_as("x"), body=write_body)
)
