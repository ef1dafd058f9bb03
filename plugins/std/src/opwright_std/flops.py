"""Counts the floating-point operations of matrix products and convolutions, from shapes.

A multiplication and an addition count as two. Biases, activations, normalizations and other
operators with few operations per element are excluded, since they are memory-bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import opwright as ow
from opwright.vocabulary import SCAN

_Shape = tuple[int, ...]


class UnknownShapeError(LookupError):
    """Raised if a formula needs an unknown shape."""


class OperatorShapes:
    """The shapes of the variables of one operator.

    Parameters
    ----------
    op : Operator
        An operator in a block with its variables.
    """

    def __init__(self, op: ow.Operator) -> None:
        self._op = op

    def input(self, slot: str) -> _Shape:
        """Return the shape of the only variable in an input slot."""
        return self.inputs(slot)[0]

    def inputs(self, slot: str) -> list[_Shape]:
        """Return the shapes of all variables in an input slot."""
        return [self._shape(name) for name in self._op.inputs.get(slot, ())]

    def output(self, slot: str = "out") -> _Shape:
        """Return the shape of the first variable in an output slot."""
        return self._shape(self._op.outputs[slot][0])

    def attr(self, name: str) -> Any:
        """Return an attribute."""
        return self._op.attr(name)

    def _shape(self, name: str) -> _Shape:
        shape = known_shape(self._op.block, name)
        if shape is None:
            raise UnknownShapeError(name)
        return shape


def known_shape(block: ow.Block | None, name: str) -> _Shape | None:
    """Return the shape of a variable, or None unless every dimension is known."""
    variable = None if block is None else block.find_var(name)
    shape = None if variable is None else variable.shape
    return None if shape is None or min(shape, default=0) < 0 else shape


def _matmul(op: OperatorShapes) -> int:
    x = op.input("x")
    is_transposed = op.attr("transpose_x") and len(x) > 1
    return 2 * math.prod(op.output()) * x[-2 if is_transposed else -1]


def _grouped(op: OperatorShapes) -> int:
    # Counts all rows, even if some belong to no group.
    weight = op.input("weight")
    return 2 * op.input("x")[0] * weight[1] * weight[2]


def _grouped_outer(op: OperatorShapes) -> int:
    return 2 * math.prod(op.input("x")) * op.input("y")[1]


def _gemm(op: OperatorShapes) -> int:
    return 2 * math.prod(op.output()) * op.input("a")[0 if op.attr("transpose_a") else 1]


def _fc(op: OperatorShapes) -> int:
    return 2 * math.prod(op.output()) * op.input("weight")[1 if op.attr("transpose_weight") else 0]


def _dot(op: OperatorShapes) -> int:
    return 2 * math.prod(op.output()) * op.input("x")[-1]


def _bilinear(op: OperatorShapes) -> int:
    # Counts, for each row and output, x times the matrix and the result times y.
    n_x, n_y = op.input("weight")[1:]
    return 2 * math.prod(op.output()) * (n_x + 1) * n_y


def _convolution(op: OperatorShapes) -> int:
    return 2 * math.prod(op.output()) * math.prod(op.input("weight")[1:])


def _transposed_convolution(op: OperatorShapes) -> int:
    return 2 * math.prod(op.input("x")) * math.prod(op.input("weight")[1:])


def _attention(op: OperatorShapes) -> int:
    # Counts queries times keys and weights times values, even if a causal mask skips some of them.
    q, k, v = op.input("q"), op.input("k"), op.input("v")
    return 2 * math.prod(q[:-1]) * k[-2] * (q[-1] + v[-1])


def _recurrent(op: OperatorShapes) -> int:
    n_rows = math.prod(op.input("x")[:-1])
    weights = [*op.inputs("weight_ih"), *op.inputs("weight_hh")]
    return 2 * n_rows * sum(map(math.prod, weights))


def _einsum(op: OperatorShapes) -> int:
    # Counts all factors of each sum, since the kernel chooses the order of several products.
    terms = op.attr("equation").replace(" ", "").partition("->")[0].split(",")
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, op.inputs("x"), strict=True):
        if len(term) != len(shape):  # an ellipsis
            raise UnknownShapeError(term)
        sizes |= dict(zip(term, shape, strict=True))
    return len(terms) * math.prod(sizes.values()) if len(terms) > 1 else 0


FLOPS: Final[Mapping[str, Callable[[OperatorShapes], int]]] = {
    "bilinear": _bilinear,
    "conv1d": _convolution,
    "conv2d": _convolution,
    "conv2d_transpose": _transposed_convolution,
    "conv3d": _convolution,
    "conv3d_transpose": _transposed_convolution,
    "dot": _dot,
    "dropout_attention": _attention,
    "einsum": _einsum,
    "fc": _fc,
    "gemm": _gemm,
    "grouped_matmul": _grouped,
    "grouped_outer": _grouped_outer,
    "gru": _recurrent,
    "gru_cell": _recurrent,
    "lstm": _recurrent,
    "lstm_cell": _recurrent,
    "matmul": _matmul,
    "rnn": _recurrent,
    "scaled_dot_product_attention": _attention,
}
"""Formula by operator type; every other type counts 0."""


def count_flops(op: ow.Operator) -> int | None:
    """Return the number of floating-point operations of one operator call, or None if unknown.

    For control flow, the operations of its bodies count: those of a scan are multiplied by the
    number of iterations, a branch counts its larger body, and the result for a loop with a
    data-dependent number of iterations is None.
    """
    bodies = op.block_attrs()
    if bodies and op.block is not None:
        return _count_bodies(op, [op.block.program.block(idx) for idx in bodies.values()])
    formula = FLOPS.get(op.type)
    if formula is None:
        return 0
    try:
        return formula(OperatorShapes(op))
    except UnknownShapeError:
        return None


def _count_bodies(op: ow.Operator, bodies: list[ow.Block]) -> int | None:
    counts = [[count_flops(inner) for inner in body.ops] for body in bodies]
    totals = [sum(count or 0 for count in numbers) for numbers in counts]
    if any(count is None for numbers in counts for count in numbers):
        return None
    if op.type == "cond" or max(totals) == 0:
        return max(totals)
    turns = _count_turns(op) if op.type == SCAN else None
    return None if turns is None else turns * sum(totals)


def _count_turns(op: ow.Operator) -> int | None:
    attrs: Mapping[str, Any] = op.attrs
    shapes = [known_shape(op.block, name) for name in op.inputs.get("xs", ())]
    if shapes:
        return None if shapes[0] is None else shapes[0][0] // (attrs.get("segment") or 1)
    return attrs.get("length")
