"""One kernel refuses without a reason; the other refuses float64, for which it is registered."""

import numpy as np

from opwright.op import OpMaker, no_gradient, same_shape_as


def twice(x, out):
    np.multiply(x, 2, out=out)


class Silent:
    @classmethod
    def prepare(cls, ctx):
        if len(ctx.inputs["x"][0].shape) != 1:
            ctx.refuse("")
        return twice


class OnlyFloat32:
    @classmethod
    def prepare(cls, ctx):
        if ctx.inputs["x"][0].dtype != "float32":
            ctx.refuse("computes float32 alone")
        return twice


def _make(op_type):
    return (
        OpMaker(op_type)
        .add_comment("Twice, out = 2 * x.")
        .add_input("x", "any shape, float")
        .dtypes("float32", "float64")
        .add_output("out", "shape and dtype of x")
        .same_dtype_as("x")
        .build(
            infer_shape=same_shape_as("x"), gradient=no_gradient("only its kernel is of interest")
        )
    )


SILENT = _make("broken_refusals.silent")
ALL = _make("broken_refusals.all")
