"""Rows of operators that read and write elements at positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from opwright_onnx.errors import DeclinedError
from opwright_onnx.translate.table import Rows
from opwright_onnx.translate.values import FLOATS
from opwright_onnx.writing.writer import Op, Writer

ROWS = Rows()


@ROWS.row("gather", "index_select")
def gather(w: Writer, op: Op) -> Any:
    if not w.shape(op):
        raise DeclinedError("x must have an axis")
    return w.node("Gather", w.input(op, "x"), w.input(op, "index"), axis=op.attrs["axis"])


@ROWS.row("embedding")
def embedding(w: Writer, op: Op) -> Any:
    weight, index, padding = w.input(op, "weight"), w.input(op, "index"), op.attrs["padding_index"]
    found = w.node("Gather", weight, index, axis=0)
    if padding < 0:
        return found
    is_padding = w.node("Unsqueeze", w.node("Equal", index, w.number(padding, index)), w.ints([-1]))
    return w.node("Where", is_padding, w.number(0, found), found)


@ROWS.row("gather_nd")
def gather_nd(w: Writer, op: Op) -> Any:
    return w.node("GatherND", w.input(op, "x"), w.cast(w.input(op, "index"), "int64"))


@ROWS.row("take_along_axis")
def take_along_axis(w: Writer, op: Op) -> Any:
    x, index, shape, places = (
        w.input(op, "x"),
        w.input(op, "index"),
        w.shape(op),
        w.shape(op, "index"),
    )
    if not shape:
        raise DeclinedError("x must have an axis")
    axis = op.attrs["axis"] % len(shape)
    pairs = [(a, b) for i, (a, b) in enumerate(zip(shape, places, strict=True)) if i != axis]
    if any(a != b or a < 0 for a, b in pairs):
        sizes = w.node("Shape", x), w.node("Shape", index)
        is_axis = w.const(np.arange(len(shape)) == axis)
        common = w.node("Max", *sizes)
        x, index = (
            w.node("Expand", value, w.node("Where", is_axis, own, common))
            for value, own in zip((x, index), sizes)
        )
    return w.node("GatherElements", x, index, axis=axis)


@ROWS.row("scatter_nd")
def scatter_nd(w: Writer, op: Op) -> Any:
    index, reduction = w.cast(w.input(op, "index"), "int64"), op.attrs["reduction"]
    return w.node("ScatterND", w.input(op, "x"), index, w.input(op, "updates"), reduction=reduction)


@ROWS.row("multiplex")
def multiplex(w: Writer, op: Op) -> Any:
    rows = w.node("Reshape", w.cast(w.input(op, "index"), "int64"), w.ints([-1]))
    places = w.ints([0])
    joined = w.node("Concat", *(w.node("Unsqueeze", x, places) for x in w.inputs(op, "x")), axis=0)
    count = w.node("Reshape", w.node("Shape", rows), w.ints([]))
    order = w.node("Range", w.const(0, "int64"), count, w.const(1, "int64"))
    pairs = [w.node("Unsqueeze", column, w.ints([-1])) for column in (rows, order)]
    return w.node("GatherND", joined, w.node("Concat", *pairs, axis=-1))


@ROWS.row("scatter")
def scatter(w: Writer, op: Op) -> Any:
    shape, places = w.known_shape(op), w.known_shape(op, "index")
    if not shape or places != w.known_shape(op, "updates"):
        raise DeclinedError("index and updates must have the same shape")
    axis = op.attrs["axis"] % len(shape)
    if any(p > n for i, (n, p) in enumerate(zip(shape, places, strict=True)) if i != axis):
        raise DeclinedError("index must not be longer than x")
    names = [w.input(op, slot) for slot in ("x", "index", "updates")]
    return w.node("ScatterElements", *names, axis=axis, reduction=op.attrs["reduction"])


@ROWS.row("one_hot")
def one_hot(w: Writer, op: Op) -> Any:
    depth = w.vector(w.items(op, "depth"))
    values = w.const([0, 1], op.attrs["dtype"])
    return w.node("OneHot", w.cast(w.input(op, "x"), "int64"), depth, values, axis=-1)


@ROWS.row("nll", "softmax_with_cross_entropy")
def class_loss(w: Writer, op: Op) -> Any:
    slot = "x" if op.type == "nll" else "logits"
    if op.attrs.get("soft_label"):
        raise DeclinedError("soft_label must be false")
    scores, label, shape = w.input(op, slot), w.input(op, "label"), w.shape(op, slot)
    axis = op.attrs["axis"] % len(shape)
    if w.dtype(op, slot) not in FLOATS:
        raise DeclinedError("scores must be floats")
    logs = scores if op.type == "nll" else w.node("LogSoftmax", scores, axis=axis)
    column = w.cast(label, "int64")
    has_axis = len(w.shape(op, "label")) == len(shape)
    if not has_axis:
        column = w.node("Unsqueeze", column, w.ints([axis]))
    is_ignored = w.node("Equal", column, w.const(op.attrs["ignore_index"], "int64"))
    safe = w.node("Where", is_ignored, w.const(0, "int64"), column)
    picked = w.node("Neg", w.node("GatherElements", logs, safe, axis=axis))
    loss = w.node("Where", is_ignored, w.number(0, logs), picked)
    out = loss if has_axis else w.node("Squeeze", loss, w.ints([axis]))
    if op.type == "nll":
        return out
    return out, w.node("Softmax", scores, axis=axis) if w.wants(op, "softmax") else None


@ROWS.row("nms")
def nms(w: Writer, op: Op) -> Any:
    limit = op.attrs["limit"]
    boxes = w.node("Unsqueeze", w.cast(w.input(op, "boxes"), "float32"), w.ints([0]))
    scores = w.node("Unsqueeze", w.cast(w.input(op, "scores"), "float32"), w.ints([0, 1]))
    most = w.ints([limit if limit >= 0 else np.iinfo(np.int32).max])
    bounds = [w.const([op.attrs[n]], "float32") for n in ("iou_threshold", "score_threshold")]
    if op.attrs["score_threshold"] == -np.inf:
        bounds.pop()
    found = w.node("NonMaxSuppression", boxes, scores, most, *bounds)
    return w.node("Gather", found, w.const(2, "int64"), axis=1)
