"""Rows of sequences and optionals; both exist only while a model is translated."""

from __future__ import annotations

from typing import Any

import numpy as np

from opwright_onnx.errors import ModelError
from opwright_onnx.translate.node import Node
from opwright_onnx.translate.table import Rows
from opwright_onnx.translate.translator import Translator
from opwright_onnx.translate.values import Value

ROWS = Rows()


@ROWS.row("SequenceConstruct")
def construct(t: Translator, n: Node, *inputs: Value) -> Any:
    return list(inputs)


@ROWS.row("SequenceEmpty")
def empty(t: Translator, n: Node) -> Any:
    return []


def place(t: Translator, items: list[Value], position: Value, extra: int = 0) -> int:
    """Return a sequence position as a non-negative index."""
    index = int(t.number(position, "position"))
    bound = len(items) + extra
    if not -len(items) <= index < bound:
        raise ModelError(f"position must be in [{-len(items)}, {bound}), got {index}")
    return index + len(items) if index < 0 else index


@ROWS.row("SequenceAt")
def at(t: Translator, n: Node, items: Value, position: Value) -> Any:
    return items[place(t, items, position)]


@ROWS.row("SequenceInsert")
def insert(t: Translator, n: Node, items: Value, item: Value, position: Value = None) -> Any:
    index = len(items) if position is None else place(t, items, position, 1)
    return [*items[:index], item, *items[index:]]


@ROWS.row("SequenceErase")
def erase(t: Translator, n: Node, items: Value, position: Value = None) -> Any:
    if not items:
        raise ModelError("the sequence must have an element, got none")
    index = len(items) - 1 if position is None else place(t, items, position)
    return [*items[:index], *items[index + 1 :]]


@ROWS.row("SequenceLength")
def length(t: Translator, n: Node, items: Value) -> Any:
    return np.array(len(items), np.int64)


@ROWS.row("SplitToSequence")
def split(t: Translator, n: Node, x: Value, sizes: Value = None) -> Any:
    axis = t.axis(n.attr("axis"), t.rank(x))
    total = t.known_dim(x, axis, "input")
    known = np.array(1) if sizes is None else t.need(sizes, "split")
    sections = [int(s) for s in known.reshape(-1)]
    if known.ndim == 0:
        each = max(sections[0], 1)
        if -(-total // each) > t.model.budget:
            raise ModelError(
                f"the node must give at most {t.model.budget} tensors, got {total // each}"
            )
        sections = [min(each, total - i) for i in range(0, total, each)]
    parts = list(t.op("split", x, axis=axis, sections=sections)) if sections else []
    if sizes is None and not n.attr("keepdims"):
        parts = [t.op("squeeze", part, axis=[axis]) for part in parts]
    return parts


@ROWS.row("ConcatFromSequence")
def join(t: Translator, n: Node, items: Value) -> Any:
    return t.op("stack" if n.attr("new_axis") else "concat", list(items), axis=n.attr("axis"))


@ROWS.row("Identity")
def identity(t: Translator, n: Node, value: Value) -> Any:
    return value if value is None or isinstance(value, list) else t.op("assign", value)


@ROWS.row("Optional")
def optional(t: Translator, n: Node, value: Value = None) -> Any:
    return value


@ROWS.row("OptionalHasElement")
def has_element(t: Translator, n: Node, value: Value = None) -> Any:
    return np.array(value is not None)


@ROWS.row("OptionalGetElement")
def get_element(t: Translator, n: Node, value: Value) -> Any:
    if value is None:
        raise ModelError("the optional must have an element, got none")
    return value
