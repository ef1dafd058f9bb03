"""Rows of convolutions and pooling."""

from __future__ import annotations

import math
from typing import Any

from opwright_onnx.errors import DeclinedError, ModelError
from opwright_onnx.translate.node import Node
from opwright_onnx.translate.table import Rows
from opwright_onnx.translate.translator import Translator
from opwright_onnx.translate.values import Value
from opwright_onnx.translate.walking import knows_old

ROWS = Rows()


def read_windows(
    t: Translator, n: Node, x: Value, kernel: list[int]
) -> tuple[dict[str, Any], list[int]]:
    """Return strides and dilations, and the paddings at the start and end of each axis."""
    count = len(kernel)
    strides = n.attr("strides") or [1] * count
    dilations = n.attr("dilations") or [1] * count
    pads = n.attr("pads") or [0] * 2 * count
    if not len(strides) == len(dilations) == count == len(pads) // 2:
        raise ModelError(
            f"strides, dilations and pads must be for {count} axes, got {strides}, "
            f"{dilations} and {pads}"
        )
    automatic = n.attr("auto_pad") or "NOTSET"
    if automatic == "VALID":
        pads = [0] * 2 * count
    elif automatic != "NOTSET":
        pads = _same(t, x, kernel, strides, dilations, automatic == "SAME_UPPER")
    pairs = [width for i in range(count) for width in (pads[i], pads[i + count])]
    return {"strides": strides, "dilations": dilations}, pairs


def _same(
    t: Translator,
    x: Value,
    kernel: list[int],
    strides: list[int],
    dilations: list[int],
    upper: bool,
) -> list[int]:
    """Return SAME paddings, for which the output length is ceil(input length / stride)."""
    begins, ends = [], []
    for axis, (size, stride, dilation) in enumerate(zip(kernel, strides, dilations), start=2):
        window = (size - 1) * dilation + 1
        if stride == 1:
            total = window - 1
        else:
            length = t.known_dim(x, axis, "input")
            total = max((-(-length // stride) - 1) * stride + window - length, 0)
        small, large = total // 2, total - total // 2
        begins.append(small if upper else large)
        ends.append(large if upper else small)
    return begins + ends


@ROWS.row("Conv")
def conv(t: Translator, n: Node, x: Value, weight: Value, bias: Value = None) -> Any:
    kernel = n.attr("kernel_shape") or t.known_shape(weight, "W")[2:]
    steps, pads = read_windows(t, n, x, kernel)
    rank = check_rank(len(kernel))
    return t.op(f"conv{rank}d", x, weight, bias, **steps, paddings=pads, groups=n.attr("group"))


def check_rank(count: int) -> int:
    """Return the number of window axes, or raise DeclinedError if no operator supports it."""
    if count not in (1, 2, 3):
        raise DeclinedError(f"its windows must have 1, 2 or 3 axes, got {count}")
    return count


@ROWS.row("ConvTranspose")
def conv_transpose(t: Translator, n: Node, x: Value, weight: Value, bias: Value = None) -> Any:
    kernel = n.attr("kernel_shape") or t.known_shape(weight, "W")[2:]
    rank = check_rank(len(kernel))
    strides = n.attr("strides") or [1] * rank
    dilations = n.attr("dilations") or [1] * rank
    pads = _transposed_pads(t, n, x, kernel, strides, dilations)
    attrs = {"strides": strides, "dilations": dilations, "groups": n.attr("group")}
    attrs["paddings"] = [max(pad, 0) for pad in pads]
    # A negative padding appends elements that no window contributes to.
    added = [max(-pad, 0) for pad in pads]
    if not any(added):
        return t.op(f"conv{rank}d_transpose", x, weight, bias, **attrs)
    found = t.op(f"conv{rank}d_transpose", x, weight, **attrs)
    found = t.op("pad", found, paddings=[0, 0, 0, 0, *added])
    if bias is not None:
        found = t.op("add", found, t.reshape(bias, [-1, *[1] * rank]))
    return found


def _transposed_pads(
    t: Translator,
    n: Node,
    x: Value,
    kernel: list[int],
    strides: list[int],
    dilations: list[int],
) -> list[int]:
    """Return the crop at the start and end of each axis; a negative crop appends elements.

    If output_shape is given, the crop is derived from it.
    """
    count = len(kernel)
    extra = n.attr("output_padding") or [0] * count
    pads = n.attr("pads") or [0] * 2 * count
    automatic = n.attr("auto_pad") or "NOTSET"
    shape = n.attr("output_shape")
    if automatic == "VALID":
        pads = [0] * 2 * count
    elif shape or automatic != "NOTSET":
        begins, ends = [], []
        for i in range(count):
            window = (kernel[i] - 1) * dilations[i] + 1
            length = t.known_dim(x, i + 2, "input")
            wanted = shape[-count:][i] if shape else length * strides[i]
            total = strides[i] * (length - 1) + extra[i] + window - wanted
            small = total // 2
            upper = automatic == "SAME_UPPER"
            begins.append(small if upper else total - small)
            ends.append(total - small if upper else small)
        pads = begins + ends
    return [width for i in range(count) for width in (pads[i], pads[i + count] - extra[i])]


def _pool(t: Translator, n: Node, kind: str, x: Value, **options: Any) -> Any:
    """Append a pooling operator with the windows of a node."""
    kernel = n.attr("kernel_shape")
    steps, pads = read_windows(t, n, x, kernel)
    attrs = {**steps, "kernel": kernel, "paddings": pads, "ceil_mode": bool(n.attr("ceil_mode"))}
    return t.op(f"{kind}_pool{check_rank(len(kernel))}d", x, **attrs, **options)


@ROWS.row("MaxPool")
def max_pool(t: Translator, n: Node, x: Value) -> Any:
    dtype = t.dtype(x)
    wide = x if dtype.startswith("float") else t.cast(x, "float32")
    if not n.wants(1):
        return t.cast(_pool(t, n, "max", wide), dtype)
    out, index = _pool(t, n, "max", wide, outputs=2)
    return t.cast(out, dtype), _whole_index(t, n, x, t.cast(index, "int64"))


def _whole_index(t: Translator, n: Node, x: Value, index: Value) -> Value:
    """Convert positions within one channel to flat positions in the complete tensor."""
    channels, *sizes = (t.dim(x, axis) for axis in range(1, t.rank(x)))
    area: Any = 1
    for size in sizes:
        area = _times(t, area, size)
    if n.attr("storage_order"):
        if len(sizes) != 2:
            raise DeclinedError("storage_order must be 0 unless the input has 2 spatial axes")
        row, column = t.op("floor_divide", index, sizes[1]), t.op("mod", index, sizes[1])
        index = t.op("add", t.op("multiply", column, sizes[0]), row)
    planes = t.op("multiply", _counted(t, channels, len(sizes)), area)
    batches = _counted(t, t.dim(x, 0), len(sizes) + 1)
    whole = t.op("multiply", batches, _times(t, channels, area))
    return t.op("add", t.op("add", index, planes), whole)


def _times(t: Translator, a: Any, b: Any) -> Any:
    """Return the product of two sizes of `dim`."""
    if isinstance(b, int):
        return t.times(a, b)
    return t.times(b, a) if isinstance(a, int) else t.op("multiply", a, b)


def _counted(t: Translator, count: Any, n_axes: int) -> Value:
    """Return the numbers below a size, int64 [count, 1, ...] with `n_axes` axes of length 1."""
    return t.reshape(t.op("arange", stop=count, dtype="int64"), [-1, *[1] * n_axes])


@ROWS.row("AveragePool")
@knows_old
def average_pool(t: Translator, n: Node, x: Value) -> Any:
    return _pool(t, n, "avg", x, count_include_pad=bool(n.attr("count_include_pad")))


@ROWS.row("LpPool")
def lp_pool(t: Translator, n: Node, x: Value) -> Any:
    return _pool(t, n, "lp", x, p=float(n.attr("p")))


@ROWS.row("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(t: Translator, n: Node, x: Value) -> Any:
    axes = list(range(2, t.rank(x)))
    if n.op_type == "GlobalLpPool":
        return t.op("norm", x, axis=axes, keepdims=True, p=float(n.attr("p")))
    return t.op("max" if "Max" in n.op_type else "mean", x, axis=axes, keepdims=True)


@ROWS.row("MaxUnpool")
def max_unpool(t: Translator, n: Node, x: Value, index: Value, shape: Value = None) -> Any:
    batch = t.dim(x, 0) if shape is None else t.known_dim(x, 0, "input")
    channels, *sizes = (t.known_dim(x, axis, "input") for axis in range(1, t.rank(x)))
    kernel = n.attr("kernel_shape")
    steps, pads = read_windows(t, n, x, kernel)
    spread = [
        (size - 1) * stride + window - pads[2 * i] - pads[2 * i + 1]
        for i, (size, stride, window) in enumerate(zip(sizes, steps["strides"], kernel))
    ]
    whole = [batch, channels, *spread]
    # Positions are flat indices into the pooling input, which has the shape `whole`.
    empty = t.full(0, [t.times(batch, math.prod(whole[1:]))], t.dtype(x))
    flat = t.op("scatter_nd", empty, t.reshape(index, [-1, 1]), t.reshape(x, [-1]))
    found = t.reshape(flat, whole)
    if shape is None:
        return found
    target = t.ints(shape, "output_shape")
    widths = [width for a, b in zip(whole, target, strict=True) for width in (0, b - a)]
    return t.op("pad", found, paddings=widths) if any(widths) else found
