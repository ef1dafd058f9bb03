"""Test cases of ctc_loss."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from case import Array, Case, Random, Source, Values


def likelihood(powers: Array, label: Array, blank: int) -> float:
    """Sum path probabilities, grouped by labels passed so far and whether a blank came last."""
    ways = {(0, True): 1.0}
    for row in powers:
        following: dict[tuple[int, bool], float] = defaultdict(float)
        for (count, is_blank), p in ways.items():
            following[count, True] += p * row[blank]
            if not is_blank:
                following[count, False] += p * row[label[count - 1]]
            if count < len(label) and (is_blank or label[count] != label[count - 1]):
                following[count + 1, False] += p * row[label[count]]
        ways = following
    return ways.get((len(label), True), 0.0) + ways.get((len(label), False), 0.0)


def ctc_loss(
    x: Array,
    label: Array,
    lengths: Array | None = None,
    label_lengths: Array | None = None,
    blank: int = 0,
    zero_infinity: bool = False,
) -> Array:
    losses = np.zeros(len(x))
    for i, row in enumerate(x):
        time = len(row) if lengths is None else lengths[i]
        count = label.shape[1] if label_lengths is None else label_lengths[i]
        p = likelihood(np.exp(row[:time]), label[i, :count], blank)
        losses[i] = -np.log(p)
    return np.where(zero_infinity & np.isinf(losses), 0, losses)


def case(shape: tuple[int, int, int], label: Any, name: str, **others: Any) -> Case:
    slots = ("lengths", "label_lengths")
    inputs: dict[str, Source] = {"x": Random(shape, -2.0, 0.0), "label": label}
    inputs |= {slot: others.pop(slot) for slot in slots if slot in others}
    return Case(
        "ctc_loss",
        inputs,
        ctc_loss,
        others,
        label=name,
        terms=shape[1],
        magnitude=4.0 * max(shape[1], 1),
    )


def row_of(count: int) -> Values:
    return Values([[1 + (i // 2) % 3 for i in range(count)]], "int64")


IMPOSSIBLE = {
    "x": Random((3, 3, 3), -2.0, 0.0),
    "label": Values([[1, 1, 2], [1, 2, 1], [2, 2, 2]], "int64"),
}


def gradients_of_impossible(x: Array, label: Array, out_grad: Array, **_: object) -> Array:
    # Only the second row has a path, which emits one of its labels at each time step.
    gradients = np.zeros(x.shape)
    gradients[1, [0, 1, 2], [1, 2, 1]] = -1
    return gradients


CASES = (
    *(case((1, 2 * n + 3, 4), row_of(n), f"labels-{n}") for n in (0, 1, 3, 4, 7, 8, 9, 16)),
    case((3, 5, 4), Values([[1, 2], [3, 3], [2, 1]], "int32"), "rows"),
    case((2, 4, 3), Values([[0, 1], [1, 1]], "int64"), "blank", blank=2),
    case(
        (4, 6, 5),
        Values([[1, 2, 3], [2, 2, -1], [4, 99, 0], [-7, 0, 0]], "int64"),
        "lengths",
        lengths=Values([6, 4, 3, 2], "int64"),
        label_lengths=Values([3, 2, 1, 0], "int64"),
    ),
    case((2, 5, 3), Values([[1, 2], [2, 1]], "int32"), "times", lengths=Values([5, 3], "int32")),
    case((0, 5, 3), Values(np.empty((0, 2)), "int64"), "no-rows"),
    case((2, 0, 3), Values(np.empty((2, 0)), "int64"), "no-time"),
    Case(
        "ctc_loss",
        IMPOSSIBLE,
        ctc_loss,
        label="impossible",
        gradients=gradients_of_impossible,
        no_grad="compared with a formula",
        terms=3,
        magnitude=8.0,
    ),
    Case(
        "ctc_loss",
        IMPOSSIBLE,
        ctc_loss,
        {"zero_infinity": True},
        label="zero-infinity",
        gradients=gradients_of_impossible,
        no_grad="compared with a formula",
        terms=3,
        magnitude=8.0,
    ),
)
