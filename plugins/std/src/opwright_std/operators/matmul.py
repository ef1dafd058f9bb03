"""Matrix product of matrices, vectors and batches of matrices, following NumPy's rules."""

from __future__ import annotations

import numpy as np

from opwright.op import (
    GradientContext,
    InferContext,
    OpMaker,
    broadcast_shapes,
    dims_match,
    format_shape,
)
from opwright_std.compositions.expression import shape_of
from opwright_std.numerics.dtypes import NUMBERS, Array


def matmul(x: Array, y: Array, out: Array, *, transpose_x: bool, transpose_y: bool) -> None:
    # Transposition only creates views, since BLAS reads transposed operands directly.
    left = x.swapaxes(-1, -2) if transpose_x else x
    right = y.swapaxes(-1, -2) if transpose_y else y
    np.matmul(left, right, out=out)


def _matmul_shape(ctx: InferContext) -> None:
    """The output is [..., m, n] for x [..., m, k] and y [..., k, n]; the axes ... broadcast."""
    x, y = _as_matrix(ctx, "x"), _as_matrix(ctx, "y")
    left, right = ctx.input("x").shape, ctx.input("y").shape
    if len(right) == 1:
        y = (y[1], y[0])
    if not dims_match(x[1], y[0]):
        ctx.fail(
            f"the inner dimensions must be equal, got {x[1]} and {y[0]} for x {format_shape(left)} "
            f"and y {format_shape(right)}; transpose_x and transpose_y transpose them"
        )
    rows = x[:1] if len(left) > 1 else ()
    columns = y[1:] if len(right) > 1 else ()
    ctx.set_output("out", (*broadcast_shapes(left[:-2], right[:-2], ctx), *rows, *columns))


def _as_matrix(ctx: InferContext, slot: str) -> tuple[int, int]:
    """Return the last two dimensions of an operand in the product; a vector is one row."""
    shape, turned = ctx.input(slot).shape, ctx.attr(f"transpose_{slot}")
    ctx.require(shape, f"{slot} must have at least 1 dimension, got a scalar; use multiply")
    if len(shape) == 1:
        ctx.require(not turned, f"transpose_{slot} needs an {slot} of at least 2 dimensions, got 1")
        return 1, shape[0]
    return (shape[-1], shape[-2]) if turned else (shape[-2], shape[-1])


class _Operand:
    """An operand in the gradient rule: a matrix or a batch of matrices.

    Attributes
    ----------
    slot, source : str
        The input slot and its variable.
    is_vector : bool
        Whether it is a vector, multiplied as one row (x) or one column (y).
    name : str
        The multiplied variable: for a vector, a copy with the missing axis.
    shape : tuple of int
        Dimensions of `name`.
    turned : bool
        Whether it enters the product transposed.
    """

    def __init__(self, g: GradientContext, slot: str) -> None:
        self.slot = slot
        self.source = g.inputs(slot)[0]
        self.turned = bool(g.attr(f"transpose_{slot}"))
        self.name, self.shape = self.source, shape_of(g, slot)
        self.is_vector = len(self.shape) == 1
        if self.is_vector:
            axis = 0 if slot == "x" else 1
            self.name = _unsqueeze(g, self.source, axis)
            self.shape = (*self.shape[:axis], 1, *self.shape[axis:])


def _unsqueeze(g: GradientContext, name: str, axis: int) -> str:
    return g.emit("unsqueeze", {"x": name}, attrs={"axis": [axis]})


def _matmul_gradient(g: GradientContext) -> None:
    (grad,) = g.filled_output_grads("out")
    x, y = _Operand(g, "x"), _Operand(g, "y")
    if x.is_vector:
        grad = _unsqueeze(g, grad, -1 if y.is_vector else -2)
    if y.is_vector:
        grad = _unsqueeze(g, grad, -1)
    for operand, other in ((x, y), (y, x)):
        if g.wants(operand.slot):
            name = _grad_of(g, operand, other, grad)
            if operand.is_vector:
                name = g.emit("reshape_like", {"x": name, "like": operand.source})
            g.set_input_grad(operand.slot, name)


def _grad_of(g: GradientContext, operand: _Operand, other: _Operand, grad: str) -> str:
    """Emit the gradient of `operand.name`, summed over its broadcast batch axes."""
    if _is_weight(operand, other):
        k, n = other.shape[-1], operand.shape[0 if operand.turned else 1]
        rows = g.emit("reshape", {"x": other.name}, attrs={"shape": [-1, k]})
        grad = g.emit("reshape", {"x": grad}, attrs={"shape": [-1, n]})
        return _product(g, operand, rows, False, grad)
    name = _product(g, operand, other.name, other.turned, grad)
    stacks = operand.shape[:-2]
    if len(other.shape) == 2 or (stacks == other.shape[:-2] and -1 not in stacks):
        return name
    return g.emit("sum_like", {"x": name, "like": operand.name})


def _is_weight(operand: _Operand, other: _Operand) -> bool:
    """Return whether a batch shares the right matrix, so one product of all rows suffices."""
    return (
        operand.slot == "y"
        and len(operand.shape) == 2
        and len(other.shape) > 2
        and not other.turned
        and min(*operand.shape, other.shape[-1]) > 0
    )


def _product(
    g: GradientContext, operand: _Operand, other: str, other_turned: bool, grad: str
) -> str:
    """Emit the product of `grad` and the other operand, with the shape of `operand`.

    With X and Y in the product: dX = G Y^T, dX^T = Y G^T, dY = X^T G, dY^T = G^T X.
    """
    if operand.slot == "x":
        factors = (grad, False, other, not other_turned)
        if operand.turned:
            factors = (other, other_turned, grad, True)
    elif operand.turned:
        factors = (grad, True, other, other_turned)
    else:
        factors = (other, not other_turned, grad, False)
    left, turn_left, right, turn_right = factors
    attrs = {"transpose_x": turn_left, "transpose_y": turn_right}
    return g.emit("matmul", {"x": left, "y": right}, attrs=attrs)


MATMUL = (
    OpMaker("matmul")
    .add_comment(
        "Matrix product by NumPy's rules, out = x @ y: batches of matrices broadcast; a vector is "
        "one row on the left and one column on the right, and that axis is dropped from out."
    )
    .add_input("x", "[..., m, k], or [..., k, m] with transpose_x, or [k]")
    .dtypes(*NUMBERS)
    .add_input("y", "[..., k, n], or [..., n, k] with transpose_y, or [k]; dtype of x")
    .same_dtype_as("x")
    .add_output("out", "[..., m, n], without m or n if x or y is a vector; dtype of x")
    .same_dtype_as("x")
    .add_attr("transpose_x", bool, "whether the last two axes of x are swapped first")
    .default(False)
    .add_attr("transpose_y", bool, "whether the last two axes of y are swapped first")
    .default(False)
    .build(infer_shape=_matmul_shape, gradient=_matmul_gradient)
)
