"""Composed products of vectors and matrices: outer, dot, cross and kron."""

from __future__ import annotations

from string import ascii_letters

from opwright.op import (
    BodyContext,
    InferContext,
    OpMaker,
    Shape,
    broadcast_shapes,
    dims_match,
    format_shape,
    normalize_axis,
    numel,
)
from opwright_std.compositions.expression import shape_of
from opwright_std.numerics.dtypes import NUMBERS, ORDERED


def _product(
    op_type: str, comment: str, x: str, y: str, out: str, dtypes: tuple[str, ...] = NUMBERS
) -> OpMaker:
    return (
        OpMaker(op_type)
        .add_comment(comment)
        .add_input("x", x)
        .dtypes(*dtypes)
        .add_input("y", f"{y}; dtype of x")
        .same_dtype_as("x")
        .add_output("out", f"{out}, dtype of x")
        .same_dtype_as("x")
    )


def _shapes(ctx: InferContext) -> tuple[Shape, Shape]:
    return ctx.input("x").shape, ctx.input("y").shape


def _outer_shape(ctx: InferContext) -> None:
    """The output has one row per element of x and one column per element of y."""
    ctx.set_output("out", [-1 if -1 in shape else numel(shape) for shape in _shapes(ctx)])


def _outer_body(b: BodyContext) -> None:
    column = b.emit("reshape", {"x": b.input("x")}, attrs={"shape": [-1, 1]})
    row = b.emit("reshape", {"x": b.input("y")}, attrs={"shape": [1, -1]})
    b.emit("multiply", {"x": column, "y": row}, {"out": b.output("out")})


OUTER = _product(
    "outer",
    "Outer product, out[i, j] = x[i] * y[j], both flattened, as numpy.outer.",
    "any shape",
    "any shape",
    "[elements of x, elements of y]",
    ORDERED,
).build(infer_shape=_outer_shape, body=_outer_body)


def _dot_shape(ctx: InferContext) -> None:
    """The output has all axes of x except the last, then all of y except the second to last."""
    x, y = _shapes(ctx)
    if not x or not y:
        ctx.set_output("out", x or y)
        return
    place = max(len(y) - 2, 0)
    if not dims_match(x[-1], y[place]):
        ctx.fail(
            f"the last axis of x and axis {place} of y must have the same length, got "
            f"{format_shape(x)} and {format_shape(y)}"
        )
    ctx.set_output("out", (*x[:-1], *y[:place], *y[place + 1 :]))


def _dot_body(b: BodyContext) -> None:
    x, y = (shape_of(b, slot) for slot in ("x", "y"))
    inputs = {"x": b.input("x"), "y": b.input("y")}
    out = {"out": b.output("out")}
    if not x or not y:
        b.emit("multiply", inputs, out)
    elif len(x) == len(y) == 1:  # both in memory order
        attrs = {"axis": [0]}
        rows = {slot: b.emit("unsqueeze", {"x": inputs[slot]}, attrs=attrs) for slot in "xy"}
        made = b.emit("matmul", rows, attrs={"transpose_y": True})
        b.emit("squeeze", {"x": made}, out, {"axis": [0, 1]})
    elif len(y) <= 2:
        b.emit("matmul", inputs, out)
    else:
        left, right = ascii_letters[: len(x)], ascii_letters[len(x) : len(x) + len(y)]
        joined = f"{right[:-2]}{left[-1]}{right[-1]}"
        equation = f"{left},{joined}->{left[:-1]}{right[:-2]}{right[-1]}"
        operands = [b.inputs("x")[0], b.inputs("y")[0]]
        b.emit("einsum", {"x": operands}, out, {"equation": equation})


DOT = _product(
    "dot",
    "Dot product by numpy.dot's rules, out = sum(x[i] * y[i]) for vectors: for more axes the sum "
    "is over the last one of x and the second to last of y; a scalar is a factor.",
    "any shape",
    "the second to last axis, or the only one, as long as the last of x",
    "the axes of x without the last, then those of y without the second to last",
).build(infer_shape=_dot_shape, body=_dot_body)


def _cross_shape(ctx: InferContext) -> None:
    """The output has the broadcast shape of x and y."""
    shapes = x, y = _shapes(ctx)
    ctx.require(len(x) == len(y), f"x and y must have the same rank, got {len(x)} and {len(y)}")
    axis = normalize_axis(ctx, ctx.attr("axis"), len(x))
    for slot, shape in zip(("x", "y"), shapes, strict=True):
        if not dims_match(shape[axis], 3):
            ctx.fail(f"{slot} must have 3 elements along axis {axis}, got {format_shape(shape)}")
    out = list(broadcast_shapes(x, y, ctx))
    out[axis] = 3
    ctx.set_output("out", out)


def _cross_body(b: BodyContext) -> None:
    def turned(slot: str, shift: int) -> str:
        attrs = {"shift": [shift], "axis": [b.attr("axis")]}
        return b.emit("roll", {"x": b.input(slot)}, attrs=attrs)

    first, second = (
        b.emit("multiply", {"x": turned("x", shift), "y": turned("y", -3 - shift)})
        for shift in (-1, -2)
    )
    b.emit("subtract", {"x": first, "y": second}, {"out": b.output("out")})


CROSS = (
    _product(
        "cross",
        "Cross product of vectors of 3 elements along one axis, out[0] = x[1] * y[2] - x[2] * "
        "y[1] and so on cyclically, as numpy.cross. The other axes broadcast.",
        "at least 1-d, 3 elements along axis",
        "as many axes as x, 3 elements along axis",
        "broadcast shape of x and y",
    )
    .add_attr("axis", int, "the axis of the vectors")
    .default(-1)
    .build(infer_shape=_cross_shape, body=_cross_body)
)


def _same_rank(x: Shape, y: Shape) -> tuple[Shape, Shape]:
    """Pad both shapes with leading ones to the same rank."""
    rank = max(len(x), len(y))
    return (1,) * (rank - len(x)) + tuple(x), (1,) * (rank - len(y)) + tuple(y)


def _kron_dims(x: Shape, y: Shape) -> list[int]:
    pairs = zip(*_same_rank(x, y), strict=True)
    return [n * m if min(n, m) >= 0 else -1 for n, m in pairs]


def _kron_shape(ctx: InferContext) -> None:
    """Each axis is the product of the lengths in x and y."""
    ctx.set_output("out", _kron_dims(*_shapes(ctx)))


def _kron_body(b: BodyContext) -> None:
    metas = [b.meta(b.inputs(slot)[0]) for slot in ("x", "y")]
    ranks = [0 if meta is None else len(meta.shape) for meta in metas]
    rank, out = max(ranks), {"out": b.output("out")}
    # For each pair of axes, x becomes [n, 1] and y becomes [1, m].
    inputs = {}
    for slot, own, place in (("x", ranks[0], 1), ("y", ranks[1], 0)):
        missing = range(2 * (rank - own))
        axes = [*missing, *(2 * i + place for i in range(rank - own, rank))]
        name = b.input(slot)
        inputs[slot] = b.emit("unsqueeze", {"x": name}, attrs={"axis": axes}) if axes else name
    name = b.emit("multiply", inputs, None if rank else out)
    for axis in range(rank):
        last = out if axis == rank - 1 else None
        attrs = {"start_axis": axis, "stop_axis": axis + 1}
        name = b.emit("flatten", {"x": name}, last, attrs)


KRON = _product(
    "kron",
    "Kronecker product, a block y * x[i, j] for each element of x, as numpy.kron: the "
    "input with fewer axes is padded with leading axes of length 1.",
    "any shape",
    "any shape",
    "each axis is the product of the lengths in x and y",
    ORDERED,
).build(infer_shape=_kron_shape, body=_kron_body)
