"""Test cases of cross_entropy."""

from __future__ import annotations

from typing import Any

import numpy as np
from case import LENGTHS, Array, Case, Random, Source, Values


def cross_entropy(
    x: Array, label: Array, soft_label: bool = False, epsilon: float = 1e-37
) -> Array:
    logs = np.log(np.where(x < epsilon, epsilon, x))
    if soft_label:
        return -(label * logs).sum(-1, keepdims=True)
    ids = label if label.ndim == x.ndim else label[..., None]
    return -np.take_along_axis(logs, ids, -1).reshape(label.shape)


def case(x: Source, label: Source, name: str, no_grad: str = "", **attrs: Any) -> Case:
    inputs = {"x": x, "label": label}
    return Case("cross_entropy", inputs, cross_entropy, attrs, label=name, no_grad=no_grad)


def scores(*shape: int) -> Random:
    return Random(shape, 0.05, 1.0)


CASES = (
    case(scores(4, 3), Values([[0], [2], [1], [2]], "int64"), "column"),
    case(scores(4, 3), Values([0, 2, 1, 2], "int32"), "vector"),
    case(scores(2, 2, 3), Values([[[0], [2]], [[1], [2]]], "int64"), "stack"),
    case(scores(2, 2, 3), Values([[0, 2], [1, 2]], "int64"), "stack-squeezed"),
    case(scores(3), Values([2], "int64"), "one-row"),
    case(scores(0, 3), Values(np.empty((0, 1)), "int64"), "empty"),
    case(scores(2, 1), Values([0, 0], "int64"), "one-class"),
    *(case(scores(2, n), Values([[0], [n - 1]], "int64"), f"width-{n}") for n in LENGTHS if n),
    case(scores(4, 3), scores(4, 3), "soft", soft_label=True),
    case(scores(2, 2, 3), scores(2, 2, 3), "soft-stack", soft_label=True),
    case(scores(0, 3), scores(0, 3), "soft-empty", soft_label=True),
    case(
        Values([[0.0, 1.0], [0.2, 0.8], [0.9, 0.1]]),
        Values([0, 0, 1], "int64"),
        "epsilon",
        epsilon=0.05,
    ),
    case(Values([[0.0, 1.0], [1e-40, 1.0]]), Values([0, 1], "int64"), "zero", "a kink"),
)
