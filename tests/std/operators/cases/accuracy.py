"""Test cases of accuracy."""

from __future__ import annotations

from typing import Any

import numpy as np
from case import WIDE, Array, Case, Source, Values


def accuracy(x: Array, label: Array, k: int = 1) -> tuple[Array, Array, Array]:
    """Count the classes that rank before the label: higher score, or equal score and lower id.

    A label whose own score is NaN is never correct.
    """
    correct = 0
    for row, wanted in zip(x, label.ravel(), strict=True):
        score = np.where(np.isnan(row), np.inf, row)
        earlier = np.arange(len(row)) < wanted
        before = (score > score[wanted]) | ((score == score[wanted]) & earlier)
        correct += int(before.sum() < k and not np.isnan(row[wanted]))
    n_rows = len(x)
    return np.array([correct / max(n_rows, 1)]), np.array([correct]), np.array([n_rows])


def case(x: Source, label: Source, name: str, **attrs: Any) -> Case:
    return Case("accuracy", {"x": x, "label": label}, accuracy, attrs, WIDE, name, ulps=1)


SCORES = Values([[0.1, 0.7, 0.2], [0.5, 0.3, 0.2], [0.2, 0.4, 0.4], [0.3, 0.3, 0.4]])
COLUMN = Values([[1], [2], [2], [2]], "int64")

CASES = (
    case(SCORES, COLUMN, "column"),
    case(SCORES, Values([1, 2, 1, 0], "int32"), "vector"),
    case(SCORES, COLUMN, "two-best", k=2),
    case(SCORES, COLUMN, "three-best", k=3),
    case(SCORES, COLUMN, "more-than-classes", k=9),
    case(Values(np.empty((0, 3))), Values(np.empty((0, 1)), "int64"), "empty"),
    case(Values([[np.nan, 1.0], [np.nan, np.nan]]), Values([1, 1], "int64"), "nan"),
    case(Values(np.full((3, 2), np.nan)), Values([0, 0, 1], "int64"), "nan-scores"),
    case(Values([[np.nan, 1.0], [1.0, np.nan]]), Values([0, 0], "int64"), "nan-label", k=9),
    case(Values([[np.nan, 1.0], [2.0, 1.0]]), Values([1, 1], "int64"), "behind-nan", k=2),
)
