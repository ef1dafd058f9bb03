"""Test cases of edit_distance."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from case import LENGTHS, Array, Case, Random, Values


def count_edits(x: tuple[int, ...], label: tuple[int, ...]) -> int:
    @cache
    def edits(i: int, j: int) -> int:
        if i == 0 or j == 0:
            return max(i, j)
        kept = edits(i - 1, j - 1) + (x[i - 1] != label[j - 1])
        return min(kept, edits(i - 1, j) + 1, edits(i, j - 1) + 1)

    return edits(len(x), len(label))


def edit_distance(
    x: Array,
    label: Array,
    lengths: Array | None = None,
    label_lengths: Array | None = None,
    normalized: bool = True,
) -> Array:
    out = []
    for i in range(len(x)):
        first = x[i] if lengths is None else x[i, : lengths[i]]
        second = label[i] if label_lengths is None else label[i, : label_lengths[i]]
        edits = count_edits(tuple(first.tolist()), tuple(second.tolist()))
        size = len(second) if normalized else 1
        out.append(edits / size if size else (np.inf if edits else 0.0))
    return np.array(out, np.float32)


def case(label: str, x: Any, wanted: Any, **options: Any) -> Case:
    attrs = options.pop("attrs", {})
    inputs = {"x": x, "label": wanted, **options}
    return Case(
        "edit_distance",
        inputs,
        edit_distance,
        attrs,
        ("int32", "int64"),
        label,
        no_grad="it is a count",
    )


CASES = (
    *(case(f"length-{n}", Random((3, n), 0, 3), Random((3, 8), 0, 3)) for n in LENGTHS),
    *(case(f"label-{n}", Random((3, 8), 0, 3), Random((3, n), 0, 3)) for n in LENGTHS),
    case("no-sequence", Random((0, 4)), Random((0, 3))),
    case("none-longer", Random((3, 0)), Random((3, 0))),
    case("count", Random((4, 9), 0, 3), Random((4, 5), 0, 3), attrs={"normalized": False}),
    case("equal", Values([[3, 1, 2]]), Values([[3, 1, 2]])),
    case("shifted", Values([[1, 2, 3, 4, 5]]), Values([[2, 3, 4, 5, 6]])),
    case(
        "lengths",
        Random((4, 6), 0, 2),
        Random((4, 5), 0, 2),
        lengths=Values([0, 6, 3, 0], "int64"),
        label_lengths=Values([5, 0, 4, 0], "int32"),
    ),
)
