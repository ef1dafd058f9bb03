"""Class ids and positions out of range raise errors that name operator, range and value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from direct import call

from opwright_std.operators.accuracy import ACCURACY, accuracy
from opwright_std.operators.cross_entropy import CROSS_ENTROPY, cross_entropy
from opwright_std.operators.embedding import EMBEDDING, embedding
from opwright_std.operators.gather import GATHER, gather
from opwright_std.operators.one_hot import ONE_HOT, one_hot
from opwright_std.operators.softmax_with_cross_entropy import (
    SOFTMAX_WITH_CROSS_ENTROPY,
    softmax_with_cross_entropy,
)

ROWS = np.full((2, 10), 0.1, np.float32)
# Operator, kernel, definition, score slot or None, id slot, other attributes.
READERS: tuple[tuple[str, Any, Any, str | None, str, dict[str, Any]], ...] = (
    ("cross_entropy", cross_entropy, CROSS_ENTROPY, "x", "label", {}),
    (
        "softmax_with_cross_entropy",
        softmax_with_cross_entropy,
        SOFTMAX_WITH_CROSS_ENTROPY,
        "logits",
        "label",
        {},
    ),
    ("accuracy", accuracy, ACCURACY, "x", "label", {}),
    ("one_hot", one_hot, ONE_HOT, None, "x", {"depth": 10}),
    ("embedding", embedding, EMBEDDING, "weight", "index", {}),
)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("wrong", [-1, 10, 12, -(2**31)])
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader[0])
def test_a_class_id_out_of_range_raises(reader: Any, wrong: int, dtype: str) -> None:
    op, kernel, definition, scores, slot, attrs = reader
    count = 2 if op == "embedding" else 10
    inputs = {slot: [np.array([1, wrong], dtype)]}
    if scores is not None:
        inputs[scores] = [ROWS]
    with pytest.raises(ValueError, match=rf"{op}: {slot} must be in \[0, {count}\), got {wrong}$"):
        call(kernel, definition, inputs, attrs)


@pytest.mark.parametrize("wrong", [-11, 10, 12])
def test_a_position_out_of_range_raises(wrong: int) -> None:
    inputs = {"x": [ROWS], "index": [np.array([1, wrong], "int64")]}
    with pytest.raises(ValueError, match=rf"gather: index must be in \[-10, 10\), got {wrong}$"):
        call(gather, GATHER, inputs, {"axis": 1})


def test_selecting_from_an_empty_axis_raises() -> None:
    inputs = {"x": [np.empty((0, 3))], "index": [np.array([0], "int64")]}
    with pytest.raises(ValueError, match=r"gather: index must be in \[0, 0\), got 0"):
        call(gather, GATHER, inputs)
    inputs = {"weight": [np.empty((0, 3))], "index": [np.array([0], "int64")]}
    with pytest.raises(ValueError, match=r"embedding: index must be in \[0, 0\), got 0"):
        call(embedding, EMBEDDING, inputs)


def test_the_ignored_label_is_not_a_class_but_other_labels_are_checked() -> None:
    inputs = {"logits": [ROWS], "label": [np.array([-100, 11], "int64")]}
    with pytest.raises(ValueError, match=r"label must be in \[0, 10\), got 11"):
        call(softmax_with_cross_entropy, SOFTMAX_WITH_CROSS_ENTROPY, inputs)


@pytest.mark.parametrize(
    ("label", "soft", "message"),
    [
        (np.zeros((2, 1), "int64"), True, "label must have the dtype of x with soft_label"),
        (np.zeros((2, 10), "float32"), False, "label must be int32 or int64 without soft_label"),
        (np.zeros((3, 1), "int64"), False, r"label must have the shape \[2, 1\] or \[2\], got \[3"),
        (np.zeros((2, 2), "int64"), False, r"label must have the shape \[2, 1\] or \[2\], got \[2"),
        (np.zeros((2, 9), "float32"), True, r"label must have the shape \[2, 10\], got \[2, 9\]"),
    ],
)
def test_a_label_of_a_wrong_shape_or_dtype_raises(label: Any, soft: bool, message: str) -> None:
    inputs = {"x": [ROWS], "label": [label]}
    with pytest.raises(ValueError, match=f"cross_entropy: {message}"):
        call(cross_entropy, CROSS_ENTROPY, inputs, {"soft_label": soft})


@pytest.mark.parametrize("reader", READERS[:2], ids=lambda reader: reader[0])
def test_every_label_raises_if_there_are_no_classes(reader: Any) -> None:
    op, kernel, definition, scores, slot, _ = reader
    inputs = {scores: [np.empty((1, 0), "float32")], slot: [np.array([0], "int64")]}
    with pytest.raises(ValueError, match=rf"{op}: label must be in \[0, 0\), got 0"):
        call(kernel, definition, inputs)
