"""``nhwc`` rules for operators with axes of images, and for transpositions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

from opwright.rewriting import LoweredOp, Value

PLACES = (0, 3, 1, 2)
"""The axis in NHWC of each axis of NCHW."""


class Axes(NamedTuple):
    """How an operator with axes is converted.

    Attributes
    ----------
    images : callable
        Returns the slots of images, none if the operator cannot be converted.
    turn : callable
        Returns the attributes with channels-last axes.
    """

    images: Callable[[LoweredOp], frozenset[str]]
    turn: Callable[[LoweredOp], Mapping[str, Any]]


def _all_images(op: LoweredOp) -> frozenset[str]:
    """Return all slots if each of their arrays has four axes."""
    slots = (*op.definition.proto.inputs, *op.definition.proto.outputs)
    values = [value for values in (*op.inputs, *op.outputs) for value in values]
    known = all(len(value.meta.shape) == 4 for value in values)
    return frozenset(slot.name for slot in slots) if known else frozenset()


def _reduced_images(op: LoweredOp) -> frozenset[str]:
    """Return the slots of a reduction; its output may have fewer axes, in the same order."""
    if len(op.inputs[0][0].meta.shape) != 4 or not op.attrs["axis"]:
        return frozenset()
    if op.attrs["keepdims"]:
        return frozenset({"x", "out"})
    gone = {axis % 4 for axis in op.attrs["axis"]}
    left = [PLACES[axis] for axis in range(4) if axis not in gone]
    return frozenset({"x"}) if left == sorted(left) else frozenset()


def _turn_axis(op: LoweredOp) -> Mapping[str, Any]:
    return {"axis": PLACES[op.attrs["axis"] % 4]}


def _turn_reduced(op: LoweredOp) -> Mapping[str, Any]:
    return {"axis": [PLACES[axis % 4] for axis in op.attrs["axis"]]}


def _turn_box(op: LoweredOp) -> Mapping[str, Any]:
    return {"axes": [PLACES[axis % 4] for axis in op.attrs["axes"]]}


def _turn_border(op: LoweredOp) -> Mapping[str, Any]:
    n, channels, height, width = zip(*[iter(op.attrs["paddings"])] * 2, strict=True)
    return {"paddings": [*n, *height, *width, *channels]}


def _turn_nothing(op: LoweredOp) -> Mapping[str, Any]:
    return {}


AXES: Mapping[str, Axes] = {
    **dict.fromkeys(("concat", "concat_grad", "split"), Axes(_all_images, _turn_axis)),
    **dict.fromkeys(("slice", "slice_grad"), Axes(_all_images, _turn_box)),
    **dict.fromkeys(("pad", "pad_grad"), Axes(_all_images, _turn_border)),
    **dict.fromkeys(("sum", "mean", "max", "min"), Axes(_reduced_images, _turn_reduced)),
    **dict.fromkeys(("sum_like", "expand_like"), Axes(_all_images, _turn_nothing)),
}
"""Operators that move or reduce images along some axes."""


class Split(NamedTuple):
    """A transposition of the parts of a split channel axis, in channels-last layout.

    Attributes
    ----------
    shape : tuple of int
        Shape of the input: batch, height, width, parts.
    axes : tuple of int
    permuted : tuple of int
        The shape of the output.
    back : tuple of int
        The axes of a transposition that moves the parts in front of height and width.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    permuted: tuple[int, ...]
    back: tuple[int, ...]


def split_channels(op: LoweredOp, turned: Collection[Value]) -> Split | None:
    """Return the channels-last form of a channel shuffle, or None for other transpositions."""
    (source,), axes = op.inputs[0], tuple(op.attrs["axes"])
    image, shape = source.source, source.meta.shape
    if image is None or image not in turned or len(image.meta.shape) != 4:
        return None
    n = len(shape)
    parts = range(1, n - 2)
    within = n > 4 and axes[0] == 0 and axes[-2:] == (n - 2, n - 1)
    if not within or (shape[0], *shape[-2:]) != (image.meta.shape[0], *image.meta.shape[2:]):
        return None
    last = (shape[0], *shape[-2:], *(shape[i] for i in parts))
    moved = (0, 1, 2, *(axis + 2 for axis in axes[1:-2]))
    permuted = tuple(last[axis] for axis in moved)
    return Split(last, moved, permuted, (0, *range(3, n), 1, 2))


def find_inverse(op: LoweredOp) -> Value | None:
    """Return the source of the previous transposition if `op` undoes it, otherwise None.

    Both transpositions rotate all axes except the first. One moves the channels after the
    pixels, and the other moves them in front of the pixels. The transpositions may have different
    numbers of axes.
    """
    (source,) = op.inputs[0]
    back = (source.source or source).op
    if back is None or back.type != "transpose":
        return None
    pixels, channels = _rotated(back.attrs["axes"]), _rotated(op.attrs["axes"])
    (first,), shape = back.inputs[0], source.meta.shape
    if not pixels or not channels or first.meta.shape[0] != shape[0] or 0 in shape:
        return None
    same = prod(first.meta.shape[1 : 1 + pixels]) == prod(shape[1 + channels :])
    return first if same else None


def _rotated(axes: Sequence[int]) -> int:
    """Return the number of axes after the first that rotate to the end; 0 for other orders."""
    n = axes[1] - 1 if len(axes) > 2 else 0
    return n if n > 0 and tuple(axes) == (0, *range(n + 1, len(axes)), *range(1, n + 1)) else 0
