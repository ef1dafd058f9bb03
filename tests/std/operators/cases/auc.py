"""Test cases of auc."""

from __future__ import annotations

import numpy as np
from case import FLOATS, LENGTHS, Array, Case, Random, Source, Values


def auc(
    x: Array, label: Array, positives: Array, negatives: Array, num_thresholds: int = 4095
) -> tuple[Array, Array, Array]:
    """Compare each positive row with each negative row."""
    more, fewer = positives.copy(), negatives.copy()
    for score, is_positive in zip(x.ravel(), label.ravel(), strict=True):
        (more if is_positive else fewer)[int(score * num_thresholds)] += 1
    bins = np.arange(num_thresholds + 1)
    wins = np.sign(bins[:, None] - bins[None, :]) / 2 + 0.5
    pairs = more[:, None] * fewer[None, :]
    area = (wins * pairs).sum() / max(pairs.sum(), 1)
    return np.array([area]), more, fewer


def states(*counts: int) -> Values:
    return Values(counts, "int64")


def case(x: Source, label: Source, name: str, before: tuple[Values, Values] | None = None) -> Case:
    positives, negatives = before or (states(0, 0, 0, 0, 0), states(0, 0, 0, 0, 0))
    inputs = {"x": x, "label": label, "positives": positives, "negatives": negatives}
    return Case("auc", inputs, auc, {"num_thresholds": 4}, FLOATS, name, ulps=1)


def labels(n: int) -> Values:
    return Values([i * 5 % 3 % 2 for i in range(n)], "int64")


CASES = (
    *(case(Random((n,), 0, 1, (0.25, 0.5, 0.75)), labels(n), f"rows-{n}") for n in LENGTHS),
    case(Values([[0.0], [1.0], [0.5], [0.5]]), Values([[0], [1], [0], [1]], "int32"), "column"),
    case(Values([0.3, 0.9]), Values([1, 1], "int64"), "only-positive"),
    case(Values([0.3, 0.9]), Values([[1], [0]], "int64"), "wrong"),
    case(
        Values([0.3, 0.9, 0.1]),
        Values([1, 1, 0], "int64"),
        "accumulated",
        (states(0, 4, 1, 0, 2), states(3, 0, 5, 0, 0)),
    ),
)
