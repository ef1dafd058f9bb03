"""Matrix products that skip rows hidden by lengths or a mask, because such rows may be NaN."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opwright_cuda.dtypes import CTYPES
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.launch import Argument, LaunchPlan, Struct
from opwright_cuda.products import Operands, add_either_product, describe_product
from opwright_cuda.source import own_source


class Weighing(NamedTuple):
    """A product of weights [groups, rows, terms] and rows [groups, terms, columns].

    Attributes
    ----------
    groups, rows, terms, columns : int
        Extents.
    turned : bool
        Whether the weights are stored as [groups, terms, rows].
    dtype : str
        The common dtype.
    """

    groups: int
    rows: int
    terms: int
    columns: int
    turned: bool
    dtype: str


def add_seen_product(plan: LaunchPlan, w: Weighing, operands: Operands, hides: bool) -> None:
    """Add the product of weights and rows.

    If `hides` is set, non-finite sums are recomputed without rows of weight 0.
    """
    lying = (w.terms, w.rows) if w.turned else (w.rows, w.terms)
    groups = (w.groups,) if w.groups != 1 else ()
    shapes = (*groups, *lying), (*groups, w.terms, w.columns)
    add_either_product(plan, describe_product(*shapes, w.turned, False, w.dtype), operands)
    n_outputs = w.groups * w.rows * w.columns
    if not hides or n_outputs == 0:
        return
    strides = (1, w.rows) if w.turned else (w.terms, 1)
    described = np.array([n_outputs, w.columns, w.rows, w.terms, *strides], np.int64)
    arguments: list[Argument] = [operands.out, operands.x, operands.y, Struct(described)]
    blocks, expression = blocks_for(n_outputs, plan), f"sum_seen<{CTYPES[w.dtype]}>"
    plan.launch(own_source("seen.cu"), expression, blocks, THREADS, arguments)
