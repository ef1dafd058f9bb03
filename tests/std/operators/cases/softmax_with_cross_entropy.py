"""Test cases of softmax_with_cross_entropy."""

from __future__ import annotations

from typing import Any

import numpy as np
from case import LENGTHS, Array, Case, Random, Source, Values


def loss(
    logits: Array,
    label: Array,
    soft_label: bool = False,
    ignore_index: int = -100,
    axis: int = -1,
) -> tuple[Array, Array]:
    wide = logits.astype(np.longdouble)
    shifted = wide - np.max(wide, axis, keepdims=True, initial=-np.inf)
    logs = shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))
    softmax = np.exp(logs).astype(float)
    if soft_label:
        parts = np.where(label == 0, 0.0, label * np.where(label == 0, 0.0, logs))
        return -parts.sum(axis, keepdims=True).astype(float), softmax
    ids = label if label.ndim == logits.ndim else np.expand_dims(label, axis)
    picked = -np.take_along_axis(logs, np.where(ids == ignore_index, 0, ids), axis)
    return np.where(ids == ignore_index, 0.0, picked).astype(float).reshape(label.shape), softmax


def case(logits: Source, label: Source, name: str, no_grad: str = "", **attrs: Any) -> Case:
    inputs = {"logits": logits, "label": label}
    return Case(
        "softmax_with_cross_entropy",
        inputs,
        loss,
        attrs,
        label=name,
        no_grad=no_grad,
        ulps=8,
        magnitude=4.0,
    )


def scores(*shape: int) -> Random:
    return Random(shape, -4.0, 4.0)


FAR = [[1000.0, 0.0, -1000.0], [-np.inf, 0.0, 1.0], [200.0, 0.0, -5.0]]

CASES = (
    case(scores(4, 3), Values([[0], [2], [1], [2]], "int64"), "column"),
    case(scores(4, 3), Values([0, 2, 1, 2], "int32"), "vector"),
    case(scores(2, 3, 4), Values([[[0, 1, 2, 0]], [[2, 2, 1, 0]]], "int64"), "axis", axis=1),
    case(scores(2, 3, 4), Values([[0, 1, 2, 0], [2, 2, 1, 0]], "int64"), "squeezed", axis=-2),
    case(scores(3), Values([2], "int64"), "one-row"),
    case(scores(0, 3), Values(np.empty((0, 1)), "int64"), "empty"),
    *(case(scores(2, n), Values([[0], [n - 1]], "int64"), f"width-{n}") for n in LENGTHS if n),
    case(scores(4, 3), Values([[-100], [2], [-100], [0]], "int64"), "ignored"),
    case(scores(4, 3), Values([1, 2, 1, 0], "int32"), "ignored-class", ignore_index=1),
    case(scores(2, 3), Values([-100, -100], "int64"), "all-ignored"),
    case(scores(4, 3), Random((4, 3), 0.0, 1.0), "soft", soft_label=True),
    case(scores(2, 3, 4), Random((2, 3, 4), 0.0, 1.0), "soft-axis", soft_label=True, axis=1),
    case(scores(0, 3), scores(0, 3), "soft-empty", soft_label=True),
    case(Values(FAR), Values([1, 2, 2], "int64"), "far", no_grad="infinite there"),
    case(
        Values(FAR),
        Values([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [1.0, 0.0, 0.0]]),
        "soft-far",
        no_grad="infinite there",
        soft_label=True,
    ),
)
