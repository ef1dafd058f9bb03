"""Test cases of nll."""

from __future__ import annotations

import numpy as np
from case import LENGTHS, Array, Case, Random, Values


def nll(x: Array, label: Array, ignore_index: int = -100, axis: int = -1) -> Array:
    ids = label if label.ndim == x.ndim else np.expand_dims(label, axis)
    kept = ids != ignore_index
    picked = np.take_along_axis(x, np.where(kept, ids, 0).astype(np.int64), axis)
    return np.where(kept, -picked, 0).reshape(label.shape)


def case(rows: int, classes: int, label: str) -> Case:
    ids = [i * 7 % classes for i in range(rows)]
    inputs = {"x": Random((rows, classes)), "label": Values(ids, "int64")}
    return Case("nll", inputs, nll, label=label)


IMAGE = [[[0, 1, 2], [2, 0, 1]], [[1, 1, -100], [0, 2, 2]]]

CASES = (
    *(case(n, 5, f"rows-{n}") for n in LENGTHS),
    *(case(3, n, f"classes-{n}") for n in LENGTHS if n),
    Case(
        "nll",
        {"x": Random((3, 4)), "label": Values([[1], [3], [0]], "int32")},
        nll,
        label="kept-axis",
    ),
    Case(
        "nll",
        {"x": Random((3, 4)), "label": Values([1, 9, 0], "int64")},
        nll,
        {"ignore_index": 9},
        label="ignored",
    ),
    Case(
        "nll",
        {"x": Random((2, 3, 2, 3)), "label": Values(IMAGE, "int64")},
        nll,
        {"axis": 1},
        label="pixels",
    ),
    Case(
        "nll",
        {"x": Random((2, 3, 2, 3)), "label": Values(IMAGE, "int32")},
        nll,
        {"axis": -3},
        label="negative-axis",
    ),
    Case(
        "nll",
        {
            "x": Values([[-float("inf"), float("nan")], [float("nan"), -1.0]]),
            "label": Values([0, 1], "int64"),
        },
        lambda x, label: np.array([float("inf"), 1.0]),
        label="special",
        no_grad="compared with a formula",
        gradients=lambda x, label, out_grad: np.array([[-1.0, 0.0], [0.0, -1.0]]),
    ),
)
