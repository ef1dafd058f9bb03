"""Deformable convolution: offsets move the sampling position of each kernel element."""

from __future__ import annotations

import numpy as np

from opwright.errors import GradientError
from opwright.op import (
    BodyContext,
    InferContext,
    OpMaker,
    by_differentiating,
    format_shape,
    grad_op,
)
from opwright_std.compositions.expression import Expression, dtype_of, read
from opwright_std.numerics.dtypes import FLOATS

_SLOTS = ("x", "weight", "offset")


def _windows(ctx: InferContext, sizes: tuple[int, ...], kernel: tuple[int, ...]) -> list[int]:
    counts = []
    for i, side in enumerate(("height", "width")):
        padding = sum(ctx.attr("paddings")[2 * i : 2 * i + 2])
        if sizes[i] < 0 or kernel[i] < 0:
            counts.append(-1)
            continue
        room = sizes[i] + padding - (kernel[i] - 1) * ctx.attr("dilations")[i] - 1
        if room < 0:
            ctx.fail(
                f"the kernel must fit into the padded {side}, got a kernel of {kernel[i]} elements "
                f"for {sizes[i]} elements without padding"
            )
        counts.append(room // ctx.attr("strides")[i] + 1)
    return counts


def _deform_shape(ctx: InferContext) -> None:
    """The output has one channel per filter and one pixel per window."""
    x, weight, offset = (ctx.input(slot).shape for slot in _SLOTS)
    for slot in _SLOTS:
        shape = ctx.input(slot).shape
        ctx.require(len(shape) == 4, f"{slot} must have 4 axes, got {format_shape(shape)}")
    for name, count in (("strides", 2), ("dilations", 2), ("paddings", 4)):
        value = ctx.attr(name)
        ctx.require(len(value) == count, f"{name} must hold {count} numbers, got {list(value)}")
    groups, offset_groups = ctx.attr("groups"), ctx.attr("offset_groups")
    known = min(x[1], weight[0], weight[1]) >= 0
    if known and (
        x[1] != weight[1] * groups or weight[0] % groups != 0 or x[1] % offset_groups != 0
    ):
        ctx.fail(
            "weight must be [filters, channels / groups, height, width], where groups divides both "
            f"and offset_groups divides the channels, got {format_shape(weight)} for x "
            f"{format_shape(x)}, groups={groups}, offset_groups={offset_groups}"
        )
    windows = _windows(ctx, x[2:], weight[2:])
    area = weight[2] * weight[3] if min(weight[2:]) >= 0 else -1
    for slot, parts in (("offset", 2), ("mask", 1)):
        if ctx.has_input(slot):
            rows = parts * offset_groups * area if area >= 0 else -1
            ctx.require_shape(slot, (x[0], rows, *windows))
    if ctx.has_input("bias"):
        ctx.require_shape("bias", (weight[0],))
    n = offset[0] if x[0] == -1 else x[0]
    ctx.set_output("out", (n, weight[0], *windows))


def _sizes(b: BodyContext) -> dict[str, tuple[int, ...]]:
    """Return the shapes of x, weight and offset; only the batch may be unknown."""
    shapes = {}
    for slot in _SLOTS:
        meta = b.meta(b.inputs(slot)[0])
        shapes[slot] = (-1,) * 4 if meta is None else meta.shape
        if -1 in shapes[slot][1:]:
            raise GradientError(
                f"{b.type}: the shape of {slot} must be known except for n, got "
                f"{list(shapes[slot])}; "
                "declare it"
            )
    return shapes


def _places(b: BodyContext, kernel: tuple[int, ...], windows: tuple[int, ...]) -> Expression:
    """Emit the sampling positions, [n * offset_groups, kernel * height, width, 2], x first."""
    (rows, columns), (height, width) = kernel, windows
    area = rows * columns
    offsets = read(b, "offset").then("reshape", shape=[-1, area, 2, height, width])
    parts = []
    for i, shape in ((1, [area, 1, width]), (0, [area, height, 1])):
        part = offsets.then("slice", axes=[2], starts=[i], ends=[i + 1]).then("squeeze", axis=[2])
        place = np.arange(area) % columns if i else np.arange(area) // columns
        line = place[:, None] * b.attr("dilations")[i] - b.attr("paddings")[2 * i]
        line = line + np.arange(windows[i]) * b.attr("strides")[i]
        attrs = {"values": line.ravel().tolist(), "shape": shape, "dtype": dtype_of(b)}
        parts.append((part + Expression(b, b.emit("constant", {}, attrs=attrs))).name)
    stacked = Expression(b, b.emit("stack", {"x": parts}, attrs={"axis": 4}))
    return stacked.then("reshape", shape=[-1, area * height, width, 2])


def _convolved(b: BodyContext) -> str:
    shapes = _sizes(b)
    _, channels, *pixels = shapes["x"]
    filters, depth, *kernel = shapes["weight"]
    windows, groups = shapes["offset"][2:], b.attr("groups")
    area, count = kernel[0] * kernel[1], windows[0] * windows[1]
    images = [-1, channels // b.attr("offset_groups"), *pixels]
    inputs = {
        "x": read(b, "x").then("reshape", shape=images).name,
        "grid": _places(b, tuple(kernel), windows).name,
    }
    columns = Expression(b, b.emit("grid_sample", inputs, attrs={"normalized": False}))
    if b.has_input("mask"):
        shape = [-1, 1, area * windows[0], windows[1]]
        columns = columns * read(b, "mask").then("reshape", shape=shape)
    columns = columns.then("reshape", shape=[-1, groups, depth * area, count])
    weight = read(b, "weight").then("reshape", shape=[groups, filters // groups, depth * area])
    out = weight.with_("matmul", columns).then("reshape", shape=[-1, filters, *windows])
    if b.has_input("bias"):
        out = out + read(b, "bias").then("reshape", shape=[filters, 1, 1])
    return out.name


def _deform_body(b: BodyContext) -> None:
    b.set_output("out", _convolved(b))


def _deform_maker() -> OpMaker:
    maker = OpMaker("deform_conv2d").add_comment(
        "Deformable convolution (Dai et al., 2017; with a mask Zhu et al., 2019), as "
        "torchvision.ops.deform_conv2d: conv2d in which element k of the kernel samples x "
        "bilinearly, moved by offset[n, 2 * k] rows and offset[n, 2 * k + 1] columns and "
        "multiplied by mask[n, k]. Outside the image x is 0."
    )
    maker.add_input("x", "float [n, channels, height, width]").dtypes(*FLOATS)
    maker.add_input("weight", "[filters, channels / groups, height, width of the kernel]")
    maker.same_dtype_as("x")
    maker.add_input("offset", "[n, 2 * offset_groups * kernel elements, rows, columns of out]")
    maker.same_dtype_as("x")
    maker.add_input("mask", "[n, offset_groups * kernel elements, rows, columns of out]")
    maker.same_dtype_as("x").as_optional()
    maker.add_input("bias", "[filters], dtype of x; absent counts as 0").same_dtype_as("x")
    maker.as_optional()
    maker.add_output("out", "[n, filters, rows, columns], dtype of x").same_dtype_as("x")
    maker.add_attr("strides", list[int], "distance between windows", 2).default([1, 1]).at_least(1)
    maker.add_attr("paddings", list[int], "zeros at the top, bottom, left and right", 4)
    maker.default([0, 0, 0, 0]).at_least(0)
    maker.add_attr("dilations", list[int], "distance between kernel elements", 2)
    maker.default([1, 1]).at_least(1)
    maker.add_attr("groups", int, "number of groups of channels")
    maker.default(1).at_least(1)
    maker.add_attr("offset_groups", int, "number of channel groups with separate offsets")
    return maker.default(1).at_least(1)


DEFORM_CONV2D = _deform_maker().build(
    infer_shape=_deform_shape,
    body=_deform_body,
    gradient=grad_op(
        "deform_conv2d_grad",
        needs=["x", "weight", "offset", "mask", "bias"],
        body=by_differentiating(_convolved),
    ),
)
