"""Tiled matrix products, followed by a bias and an activation for fc."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from opwright.kernel import PrepareContext
from opwright.op import Shape
from opwright_opencl.device import ROWS, WIDTH
from opwright_opencl.shapes import vector
from opwright_opencl.work import Kernel, Work

ACTIVATIONS = {"": 0, "relu": 1, "sigmoid": 2, "tanh": 3}
"""The codes of activations for ``activate`` in ``matmul.cl``."""


class Matrix(NamedTuple):
    """An operand of the product as a stack of matrices, with strides in elements."""

    stacks: int
    rows: int
    columns: int
    strides: tuple[int, int, int]


def as_matrix(shape: Shape, is_turned: bool, is_right: bool) -> Matrix:
    """Return an operand as a stack; a vector is a row on the left and a column on the right."""
    if len(shape) == 1:
        shape = (shape[0], 1) if is_right else (1, shape[0])
    *stack, rows, columns = shape
    strides = (rows * columns, columns, 1)
    if is_turned:
        rows, columns, strides = columns, rows, (strides[0], 1, strides[1])
    return Matrix(math.prod(stack), rows, columns, strides)


def _multiply(
    work: Work, x: Matrix, y: Matrix, slots: tuple[str, str], bias: object, activation: int
) -> None:
    tile = work.device.tile
    left, right = map(work.slot, slots)
    stacks = max(x.stacks, y.stacks)
    # One matrix is used for the whole stack, so its stride along the stack is 0.
    strides = [(m.strides if m.stacks > 1 else (0, *m.strides[1:])) for m in (x, y)]
    x_strides, y_strides = (vector((*found, 0), np.uint64) for found in strides)
    sizes = map(np.uint64, (x.rows, y.columns, x.columns))
    groups = (-(-y.columns // tile), -(-x.rows // tile), stacks)
    arguments = (*sizes, left, x_strides, right, y_strides, bias, work.slot("out"))
    work.launch(
        "matmul", groups, (tile // WIDTH, tile // ROWS, 1), *arguments, np.int32(activation)
    )


def _check_tile(ctx: PrepareContext, work: Work) -> None:
    if not work.device.tile:
        ctx.refuse(f"the work-groups or the local memory of {work.device.label} are too small")


def _matmul(ctx: PrepareContext, work: Work) -> None:
    _check_tile(ctx, work)
    shapes = [ctx.inputs[slot][0].shape for slot in ("x", "y")]
    x = as_matrix(shapes[0], ctx.attrs["transpose_x"], is_right=False)
    y = as_matrix(shapes[1], ctx.attrs["transpose_y"], is_right=True)
    stacks = [shape[:-2] for shape in shapes]
    if 0 in (*stacks[0], *stacks[1]):
        return
    if x.stacks > 1 < y.stacks and not _are_alike(*stacks):
        ctx.refuse(
            f"stacks must broadcast completely or not at all, got {list(stacks[0])} and "
            f"{list(stacks[1])}"
        )
    _multiply(work, x, y, ("x", "y"), None, 0)


def _are_alike(first: Shape, second: Shape) -> bool:
    """Return whether two stack shapes differ only in leading dimensions of 1."""
    longer, shorter = sorted((first, second), key=len, reverse=True)
    added = len(longer) - len(shorter)
    return longer[added:] == shorter and all(dim == 1 for dim in longer[:added])


def _fc(ctx: PrepareContext, work: Work) -> None:
    _check_tile(ctx, work)
    activation = ctx.attrs["activation"]
    if activation not in ACTIVATIONS:
        ctx.refuse(f"the activation must be a separate operator, got {activation}")
    shape, kept = ctx.inputs["x"][0].shape, ctx.attrs["num_flatten_dims"]
    flat = (math.prod(shape[:kept]), math.prod(shape[kept:]))
    x = as_matrix(flat, False, is_right=False)
    y = as_matrix(ctx.inputs["weight"][0].shape, ctx.attrs["transpose_weight"], is_right=True)
    bias = work.slot("bias") if ctx.inputs["bias"] else None
    _multiply(work, x, y, ("x", "weight"), bias, ACTIVATIONS[activation])


MATMUL, FC = Kernel(_matmul), Kernel(_fc)
