"""A broadcast product with an attribute and gradient, an in-place update, a `prepare` kernel."""

import numpy as np

from opwright.op import OpMaker, elementwise_shape, grad_op, no_gradient


def scaled_product(x, y, out, *, scale):
    np.multiply(x, y, out=out)
    np.multiply(out, scale, out=out)


def scaled_product_grad(x, y, out_grad, x_grad, y_grad, *, scale):
    for other, grad in ((y, x_grad), (x, y_grad)):
        if grad is not None:
            _sum_to(scale * other * out_grad, grad)


def _sum_to(x, out):
    added = x.ndim - out.ndim
    axes = [i for i in range(x.ndim) if i < added or out.shape[i - added] == 1 != x.shape[i]]
    np.copyto(out, np.sum(x, axis=tuple(axes)).reshape(out.shape))


SCALED_PRODUCT = (
    OpMaker("good.scaled_product")
    .add_comment("Product with a factor, out = scale * x * y.")
    .add_input("x", "any shape that broadcasts with y, float")
    .dtypes("float32", "float64")
    .add_input("y", "any shape that broadcasts with x")
    .same_dtype_as("x")
    .add_output("out", "the broadcast shape, dtype of x")
    .same_dtype_as("x")
    .add_attr("scale", float, "the factor")
    .default(1.0)
    .between(-8.0, 8.0)
    .build(
        infer_shape=elementwise_shape("x", "y"),
        gradient=grad_op("good.scaled_product_grad", needs=["x", "y"]),
    )
)


def descend(param, grad, param_out, *, rate):
    np.subtract(param, rate * grad, out=param_out)


def _descend_shape(ctx):
    param, grad = ctx.input("param").shape, ctx.input("grad").shape
    fits = len(param) == len(grad) and all(
        a == b or -1 in (a, b) for a, b in zip(param, grad, strict=True)
    )
    ctx.require(fits, f"grad must have the shape of param, {list(param)}, got {list(grad)}")
    ctx.set_output("param_out", param)


DESCEND = (
    OpMaker("good.descend")
    .add_comment("A step downhill, param_out = param - rate * grad.")
    .add_input("param", "any shape, float")
    .dtypes("float32", "float64")
    .add_input("grad", "shape and dtype of param")
    .same_dtype_as("param")
    .add_output("param_out", "param, updated in place")
    .same_dtype_as("param")
    .aliases("param")
    .add_attr("rate", float, "how far")
    .default(0.1)
    .greater_than(0.0)
    .at_most(1.0)
    .build(infer_shape=_descend_shape, gradient=no_gradient("an update of a parameter"))
)


class RowSums:
    """Sums rows; refuses long rows, which it does not support."""

    @classmethod
    def prepare(cls, ctx):
        columns = ctx.inputs["x"][0].shape[1]
        if columns > 4096:
            ctx.refuse(f"rows must have at most 4096 elements, got {columns}")
        return cls()

    def __call__(self, x, out):
        np.sum(x, axis=1, keepdims=True, out=out)


def row_sums_grad(out_grad, x_grad):
    np.copyto(x_grad, out_grad)


def _row_sums_shape(ctx):
    shape = ctx.input("x").shape
    ctx.require(len(shape) == 2, f"x must be a matrix, got shape {list(shape)}; reshape it")
    ctx.set_output("out", [shape[0], 1])


ROW_SUMS = (
    OpMaker("good.row_sums")
    .add_comment("Sums of the rows of a matrix.")
    .add_input("x", "float [n, k]")
    .dtypes("float32", "float64")
    .add_output("out", "[n, 1], dtype of x")
    .same_dtype_as("x")
    .build(infer_shape=_row_sums_shape, gradient=grad_op("good.row_sums_grad"))
)


def pick(x, index, out):
    wrong = index[(index < 0) | (index >= len(x))]
    if wrong.size:
        raise ValueError(f"index must be in [0, {len(x)}), got {wrong[0]}")
    np.copyto(out, x[index])


def _pick_shape(ctx):
    x, index = ctx.input("x").shape, ctx.input("index").shape
    fits = len(x) == len(index) == 1
    ctx.require(fits, f"x and index must be vectors, got shapes {list(x)} and {list(index)}")
    ctx.require(x[0] != 0 or index[0] == 0, f"x must have an element to pick, got {list(x)}")
    ctx.set_output("out", index)


PICK = (
    OpMaker("good.pick")
    .add_comment("Elements at positions, out[i] = x[index[i]].")
    .add_input("x", "float [n]")
    .dtypes("float32", "float64")
    .add_input("index", "positions [m] in [0, n)")
    .dtypes("int64")
    .add_output("out", "[m], dtype of x")
    .same_dtype_as("x")
    .build(infer_shape=_pick_shape, gradient=no_gradient("only its positions are of interest"))
)
