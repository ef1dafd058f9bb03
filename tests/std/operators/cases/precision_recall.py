"""Test cases of precision_recall."""

from __future__ import annotations

import numpy as np
from case import FLOATS, LENGTHS, Array, Case, Random, Source, Values


def ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def metrics(counts: Array) -> list[float]:
    def of(tp: float, fp: float, tn: float, fn: float) -> list[float]:
        return [ratio(tp, tp + fp), ratio(tp, tp + fn), ratio(2 * tp, 2 * tp + fp + fn)]

    return [*np.mean([of(*row) for row in counts], axis=0), *of(*counts.sum(axis=0))]


def precision_recall(x: Array, label: Array, states: Array) -> tuple[Array, Array, Array]:
    counts = np.zeros(states.shape, np.int64)
    guesses = [int(np.argmax(row)) for row in x]
    for c in range(x.shape[1]):
        for guess, wanted in zip(guesses, label.ravel(), strict=True):
            column = {(True, True): 0, (True, False): 1, (False, False): 2, (False, True): 3}
            counts[c, column[guess == c, bool(wanted == c)]] += 1
    total = states + counts
    return np.array(metrics(counts)), np.array(metrics(total)), total


def case(x: Source, label: Source, name: str, states: Source) -> Case:
    inputs = {"x": x, "label": label, "states": states}
    return Case("precision_recall", inputs, precision_recall, {}, FLOATS, name, ulps=2)


def nothing(classes: int) -> Values:
    return Values(np.zeros((classes, 4)), "int64")


def ids(rows: int, classes: int) -> Values:
    return Values([i * 7 % 5 % classes for i in range(rows)], "int64")


CASES = (
    *(case(Random((n, 3), distinct=True), ids(n, 3), f"rows-{n}", nothing(3)) for n in LENGTHS),
    *(
        case(Random((6, n), distinct=True), ids(6, n), f"classes-{n}", nothing(n))
        for n in LENGTHS
        if n
    ),
    case(
        Values([[0.1, 0.9], [0.8, 0.2], [0.5, 0.5]]),
        Values([[1], [1], [0]], "int32"),
        "accumulated",
        Values([[1, 2, 3, 4], [3, 4, 1, 2]], "int64"),
    ),
    case(
        Values([[np.nan, 1.0, np.nan], [2.0, np.nan, 1.0]]),
        Values([0, 1], "int64"),
        "nan",
        nothing(3),
    ),
)
