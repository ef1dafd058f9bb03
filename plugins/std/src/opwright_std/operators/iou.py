"""Intersection over union of boxes."""

from __future__ import annotations

from opwright.op import BodyContext, InferContext, OpMaker, format_shape
from opwright_std.numerics.dtypes import FLOATS


def _iou_shape(ctx: InferContext) -> None:
    """The output has one row per box of x and one column per box of y."""
    shapes = [ctx.input(slot).shape for slot in ("x", "y")]
    for slot, shape in zip(("x", "y"), shapes, strict=True):
        if len(shape) != 2 or shape[1] not in (4, -1):
            ctx.fail(f"{slot} must be boxes [n, 4], got {format_shape(shape)}")
    ctx.set_output("out", (shapes[0][0], shapes[1][0]))


def _iou_body(b: BodyContext) -> None:
    def part(slot: str, first: int) -> str:
        """Return left and top, or right and bottom, as [n, 1, 2] for x and [1, m, 2] for y."""
        attrs = {"axes": [1], "starts": [first], "ends": [first + 2]}
        corner = b.emit("slice", {"x": b.input(slot)}, attrs=attrs)
        return b.emit("unsqueeze", {"x": corner}, attrs={"axis": [1 if slot == "x" else 0]})

    def area(begin: str, end: str) -> str:
        """Return the product of width and height, [n, m], at least 0."""
        extent = b.emit("subtract", {"x": end, "y": begin})
        held = b.emit("relu", {"x": extent})
        sides = [
            b.emit("slice", {"x": held}, attrs={"axes": [2], "starts": [i], "ends": [i + 1]})
            for i in range(2)
        ]
        product = b.emit("multiply", {"x": sides[0], "y": sides[1]})
        return b.emit("squeeze", {"x": product}, attrs={"axis": [2]})

    begins, ends = ([part(slot, first) for slot in ("x", "y")] for first in (0, 2))
    both = area(
        b.emit("maximum", {"x": begins[0], "y": begins[1]}),
        b.emit("minimum", {"x": ends[0], "y": ends[1]}),
    )
    areas = [area(begin, end) for begin, end in zip(begins, ends, strict=True)]
    total = b.emit("add", {"x": areas[0], "y": areas[1]})
    union = b.emit("subtract", {"x": total, "y": both})
    # For boxes of area 0 the divisor is 1, so their overlap is 0.
    none = b.emit("equal", {"x": union, "y": b.emit("fill_like", {"x": union})})
    one = b.emit("fill_like", {"x": union}, attrs={"value": 1.0})
    divisor = b.emit("where", {"condition": none, "x": one, "y": union})
    b.emit("divide", {"x": both, "y": divisor}, {"out": b.output("out")})


def _iou_maker() -> OpMaker:
    maker = OpMaker("iou").add_comment(
        "Intersection over union (Jaccard index) of each box of x with each box of y. A box is "
        "left, top, right, bottom; its area is 0 if right < left or bottom < top, and boxes of "
        "area 0 have no overlap."
    )
    maker.add_input("x", "float boxes, [n, 4]").dtypes(*FLOATS)
    maker.add_input("y", "boxes, [m, 4], dtype of x").same_dtype_as("x")
    return maker.add_output("out", "[n, m] in [0, 1], dtype of x").same_dtype_as("x")


IOU = _iou_maker().build(infer_shape=_iou_shape, body=_iou_body)
