"""The sizes and operands of a batched matrix product by NumPy's rules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from opwright_cuda.launch import Pointer
from opwright_cuda.launch.indexing import Layout, broadcast_strides, compact_strides, merge


class Product(NamedTuple):
    """out[s] = op(x[s]) @ op(y[s]), where every matrix is row-major and compact.

    Attributes
    ----------
    m, n, k : int
        Rows and columns of out, and the inner dimension.
    transpose_x, transpose_y : bool
        Whether x is stored as [k, m], and y as [n, k].
    stacks : Layout
        The batch dimensions, and the strides of x, y and out along them in elements.
    dtype : str
        The dtype of x and y.
    out_dtype : str
        The dtype of out.
    """

    m: int
    n: int
    k: int
    transpose_x: bool
    transpose_y: bool
    stacks: Layout
    dtype: str
    out_dtype: str

    @property
    def n_stacked(self) -> int:
        """The batch size."""
        return math.prod(self.stacks.dims)

    @property
    def is_empty(self) -> bool:
        """Whether out has no elements."""
        return 0 in (self.m, self.n, self.n_stacked)


def describe_product(
    x: Sequence[int],
    y: Sequence[int],
    transpose_x: bool,
    transpose_y: bool,
    dtype: str,
    out_dtype: str | None = None,
) -> Product:
    """Return the product of arrays of these shapes by NumPy's rules.

    A batch with a shared matrix y becomes one tall matrix. `out_dtype` defaults to `dtype`; sums of
    16-bit floats may stay float32.
    """
    x, y = ((1, *x) if len(x) == 1 else tuple(x)), ((*y, 1) if len(y) == 1 else tuple(y))
    k, m = x[-2:] if transpose_x else (x[-1], x[-2])
    n = y[-2] if transpose_y else y[-1]
    dims = np.broadcast_shapes(x[:-2], y[:-2])
    of_x = [stride * m * k for stride in broadcast_strides(x[:-2], dims)]
    of_y = [stride * k * n for stride in broadcast_strides(y[:-2], dims)]
    of_out = [stride * m * n for stride in compact_strides(dims)]
    stacks = merge(dims, [of_x, of_y, of_out])
    tall = len(stacks.dims) == 1 and stacks.strides[1] == (0,) and stacks.strides[0] != (0,)
    if tall and not transpose_x:
        m, stacks = m * stacks.dims[0], Layout((), ((), (), ()))
    return Product(m, n, k, transpose_x, transpose_y, stacks, dtype, out_dtype or dtype)


class Operands(NamedTuple):
    """Pointers to the operands of a product."""

    x: Pointer
    y: Pointer
    out: Pointer
    bias: Pointer | None = None
