"""Einstein summation, composed of transposes, matrix products and sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from string import ascii_letters
from typing import NamedTuple

from opwright.errors import GradientError
from opwright.op import (
    BodyContext,
    GradientContext,
    InferContext,
    OpMaker,
    Shape,
    merge_dims,
)
from opwright_std.numerics.dtypes import NUMBERS
from opwright_std.numerics.einsum_equation import Equation, EquationError, Labels, as_text, parse


class _Part(NamedTuple):
    """An intermediate tensor: its variable, the label of each axis and their lengths."""

    name: str
    labels: Labels
    shape: Shape


def _equation(ctx: InferContext) -> Equation:
    shapes = [meta.shape for meta in ctx.inputs("x")]
    try:
        return parse(ctx.attr("equation"), [len(shape) for shape in shapes])
    except EquationError as error:
        ctx.fail(str(error))


def _einsum_shape(ctx: InferContext) -> None:
    """Each axis of out has the length of the operands' axes with its label."""
    equation = _equation(ctx)
    lengths: dict[str, int] = {}
    for i, (labels, meta) in enumerate(zip(equation.operands, ctx.inputs("x"), strict=True)):
        for label, dim in zip(labels, meta.shape, strict=True):
            known = lengths.get(label, 1 if label.isdigit() else dim)
            if label.isdigit() and 1 in (dim, known):  # axes of the ellipsis broadcast
                lengths[label] = known if dim == 1 else dim
                continue
            if dim != known and -1 not in (dim, known):
                name = f"axis {label} of the ellipsis" if label.isdigit() else f"label {label!r}"
                ctx.fail(
                    f"{name} must have the same length everywhere, got {known} and {dim} in "
                    f"operand {i}"
                )
            lengths[label] = merge_dims(known, dim)
    ctx.set_output("out", [lengths[label] for label in equation.out])


class _Writer:
    """Emits the body: contracts the operands in order, then permutes the axes of the output."""

    def __init__(self, b: BodyContext) -> None:
        self.b = b
        metas = [b.meta(name) for name in b.inputs("x")]
        self.shapes = [meta.shape for meta in metas if meta is not None]
        self.dtype = next(meta.dtype for meta in metas if meta is not None)
        self.equation = parse(b.attr("equation"), [len(shape) for shape in self.shapes])
        self.lengths: dict[str, int] = {}
        for labels, shape in zip(self.equation.operands, self.shapes, strict=True):
            for label, dim in zip(labels, shape, strict=True):
                # Axes of length 1 broadcast, even to length 0.
                self.lengths[label] = dim if dim != 1 else self.lengths.get(label, 1)

    def write(self) -> None:
        out = [self.lengths[label] for label in self.equation.out]
        if 0 in self.lengths.values():
            attrs = {"shape": out, "value": 0.0, "dtype": self.dtype}
            self.b.emit("fill", {}, {"out": self.b.output("out")}, attrs)
            return
        parts = [
            _Part(name, labels, shape)
            for name, labels, shape in zip(
                self.b.inputs("x"), self.equation.operands, self.shapes, strict=True
            )
        ]
        parts = [self.simplify(part, parts[:i] + parts[i + 1 :]) for i, part in enumerate(parts)]
        joined = parts[0]
        for i, part in enumerate(parts[1:], 2):
            needed = {*self.equation.out, *(label for rest in parts[i:] for label in rest.labels)}
            joined = self.join(joined, part, needed)
        # Restore an axis of length 1 that all operands dropped.
        joined = self.turn(joined, [label for label in self.equation.out if label in joined.labels])
        joined = self.shaped(joined, self.equation.out, out)
        self.b.set_output("out", joined.name)

    def simplify(self, part: _Part, others: Sequence[_Part]) -> _Part:
        """Extract diagonals, drop axes of length 1, and sum over axes of this operand only."""
        for label in dict.fromkeys(part.labels):
            while part.labels.count(label) > 1:
                part = self.diagonal(part, label)
        kept = tuple(a for a, dim in zip(part.labels, part.shape, strict=True) if dim != 1)
        part = self.shaped(part, kept, [dim for dim in part.shape if dim != 1])
        needed = {*self.equation.out, *(label for other in others for label in other.labels)}
        return self.summed(part, needed)

    def summed(self, part: _Part, needed: set[str]) -> _Part:
        axes = [i for i, label in enumerate(part.labels) if label not in needed]
        if not axes:
            return part
        name = self.b.emit("sum", {"x": part.name}, attrs={"axis": axes})
        if self.dtype not in ("int64", "uint64") and not self.dtype.startswith(("float", "bfloat")):
            name = self.b.emit("cast", {"x": name}, attrs={"dtype": self.dtype})
        kept = [i for i in range(len(part.labels)) if i not in axes]
        return _Part(name, tuple(part.labels[i] for i in kept), tuple(part.shape[i] for i in kept))

    def diagonal(self, part: _Part, label: str) -> _Part:
        """Merge two axes with the same label: flatten them, and keep every (n + 1)-th element."""
        first = part.labels.index(label)
        second = part.labels.index(label, first + 1)
        rest = [i for i in range(len(part.labels)) if i not in (first, second)]
        axes = [*rest, first, second]
        n = part.shape[first]
        name = self.b.emit("transpose", {"x": part.name}, attrs={"axes": axes})
        kept = [part.shape[i] for i in rest]
        name = self.b.emit("reshape", {"x": name}, attrs={"shape": [*kept, n * n]})
        box = {"axes": [len(rest)], "starts": [0], "ends": [n * n], "steps": [n + 1]}
        name = self.b.emit("slice", {"x": name}, attrs=box)
        return _Part(name, (*(part.labels[i] for i in rest), label), (*kept, n))

    def turn(self, part: _Part, labels: Sequence[str]) -> _Part:
        """Transpose an intermediate tensor to a permutation of its labels."""
        if list(part.labels) == list(labels):
            return part
        axes = [part.labels.index(label) for label in labels]
        name = self.b.emit("transpose", {"x": part.name}, attrs={"axes": axes})
        return _Part(name, tuple(labels), tuple(part.shape[i] for i in axes))

    def shaped(self, part: _Part, labels: Sequence[str], shape: Sequence[int]) -> _Part:
        if list(part.shape) == list(shape):
            return _Part(part.name, tuple(labels), part.shape)
        name = self.b.emit("reshape", {"x": part.name}, attrs={"shape": list(shape)})
        return _Part(name, tuple(labels), tuple(shape))

    def join(self, left: _Part, right: _Part, needed: set[str]) -> _Part:
        """Multiply two intermediate tensors; sum over shared axes that nothing else needs."""
        both = [label for label in left.labels if label in right.labels]
        gone = [label for label in both if label not in needed]
        batch = [label for label in both if label in needed]
        rows = [label for label in left.labels if label not in both]
        columns = [label for label in right.labels if label not in both]
        x = self.turn(left, [*batch, *rows, *gone])
        y = self.turn(right, [*batch, *gone, *columns])
        labels = (*batch, *rows, *columns)
        inner = self.count(gone)
        sides = [self.count(batch)] if batch else []
        shapes = ([*sides, self.count(rows), inner], [*sides, inner, self.count(columns)])
        x, y = self.shaped(x, (), shapes[0]), self.shaped(y, (), shapes[1])
        name = self.b.emit("matmul" if gone else "multiply", {"x": x.name, "y": y.name})
        made = _Part(name, (), (*sides, shapes[0][-2], shapes[1][-1]))
        return self.shaped(made, labels, [self.lengths[label] for label in labels])

    def count(self, labels: Sequence[str]) -> int:
        return math.prod(self.lengths[label] for label in labels)


def _einsum_body(b: BodyContext) -> None:
    _Writer(b).write()


def _einsum_gradient(g: GradientContext) -> None:
    grad, names = g.output_grad("out"), g.inputs("x")
    metas = [g.meta(name) for name in names]
    if None in metas:
        raise GradientError(
            f"einsum: its gradient depends on the number of dimensions of every operand, got "
            f"{names} with an unknown shape; declare it, with -1 for unknown dimensions"
        )
    shapes = [meta.shape for meta in metas if meta is not None]
    equation = parse(g.attr("equation"), [len(shape) for shape in shapes])
    for i, name in enumerate(names):
        if g.wants("x", i):
            g.set_input_grad("x", _grad_of(g, equation, i, name, shapes[i], grad), i)


def _grad_of(
    g: GradientContext, equation: Equation, i: int, name: str, shape: Shape, grad: str | None
) -> str:
    """Emit the einsum of the gradient and the other operands, with the labels of this operand.

    A tensor of ones restores a summed axis that only this operand has. An identity matrix restores
    the second axis of a repeated label.
    """
    used = {label for term in equation.operands for label in term}
    free = iter(letter for letter in ascii_letters if letter not in used)
    others = [j for j in range(len(equation.operands)) if j != i]
    terms = [equation.out, *(equation.operands[j] for j in others)]
    names = [grad, *(g.inputs("x")[j] for j in others)]
    target: list[str] = []
    for axis, label in enumerate(equation.operands[i]):
        second = next(free) if label in target else label
        if second != label:
            names.append(_unit_matrix(g, name, shape, axis))
            terms.append((label, second))
        target.append(second)
    if not set(target) <= {label for term in terms for label in term}:
        names.append(g.emit("fill_like", {"x": name}, attrs={"value": 1.0}))
        terms.append(tuple(target))
    attrs = {"equation": f"{','.join(map(as_text, terms))}->{as_text(target)}"}
    made = g.emit("einsum", {"x": names}, attrs=attrs)
    if any(label.isdigit() for label in equation.operands[i]):
        made = g.emit("sum_like", {"x": made, "like": name})
    return made


def _unit_matrix(g: GradientContext, name: str, shape: Shape, axis: int) -> str:
    """Emit the identity matrix for an axis."""
    if shape[axis] >= 0:
        meta = g.meta(name)
        dtype = "float32" if meta is None else meta.dtype
        attrs = {"shape": [shape[axis]] * 2, "value": 1.0, "dtype": dtype}
        ones = g.emit("fill", {}, attrs=attrs)
    else:  # its length is known only at run time
        others = [i for i in range(len(shape)) if i != axis]
        line = g.emit("fill_like", {"x": name}, attrs={"value": 1.0})
        ends = {"axes": others, "starts": [0] * len(others), "ends": [1] * len(others)}
        line = g.emit("slice", {"x": line}, attrs=ends)
        line = g.emit("sum", {"x": line}, attrs={"axis": others})
        ones = g.emit("einsum", {"x": [line, line]}, attrs={"equation": "i,j->ij"})
    return g.emit("tril", {"x": g.emit("triu", {"x": ones})})


EINSUM = (
    OpMaker("einsum")
    .add_comment(
        "Products of tensors, summed over labels missing from the output, as numpy.einsum: "
        "'ij,jk->ik' is the product of two matrices. Without -> the output has the labels that "
        "occur once, in alphabetical order after the ellipsis. Operands are multiplied from left "
        "to right."
    )
    .add_input("x", "one per term of the equation, with one axis per label of its term")
    .as_duplicable()
    .dtypes(*NUMBERS)
    .add_output("out", "one axis per label after ->; dtype of x")
    .same_dtype_as("x")
    .add_attr("equation", str, "one letter per axis, ... for broadcast axes")
    .required()
    .build(infer_shape=_einsum_shape, gradient=_einsum_gradient, body=_einsum_body)
)
