"""Test cases of losses with weights, smoothing and means, as PyTorch defines them."""

from __future__ import annotations

from typing import Any

import numpy as np
from case import Array, Case, Random, Source, Values


def reduce(rows: Array, counts: Array, reduction: str) -> Array:
    """Return the rows, their sum, or their weighted mean."""
    if reduction == "none":
        return rows
    return rows.sum() if reduction == "sum" else rows.sum() / counts.sum()


def classes_last(x: Array, axis: int) -> Array:
    return np.moveaxis(x, axis, -1)


def nll(
    x: Array,
    label: Array,
    weight: Array | None = None,
    ignore_index: int = -100,
    axis: int = -1,
    reduction: str = "none",
    smoothing: float = 0.0,
) -> Array:
    rows, shape = classes_last(x, axis), label.shape
    ids = label if label.ndim < x.ndim else np.squeeze(label, axis)
    w = np.ones(rows.shape[-1]) if weight is None else weight
    kept = ids != ignore_index
    picked = np.where(kept, ids, 0)
    counts = np.where(kept, w[picked], 0.0)
    own = -np.take_along_axis(rows, picked[..., None], -1)[..., 0] * counts
    others = np.where(kept, -(rows * w).mean(-1), 0.0)
    found = (1 - smoothing) * own + (smoothing * others if smoothing else 0.0)
    return reduce(found, counts, reduction).reshape(shape if reduction == "none" else ())


def cross_entropy(
    logits: Array,
    label: Array,
    weight: Array | None = None,
    soft_label: bool = False,
    label_smoothing: float = 0.0,
    axis: int = -1,
    **rest: Any,
) -> Array:
    shifted = logits - logits.max(axis, keepdims=True, initial=-np.inf)
    logs = shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))
    if not soft_label:
        return nll(logs, label, weight, axis=axis, smoothing=label_smoothing, **rest)
    target = (1 - label_smoothing) * label + label_smoothing / logits.shape[axis]
    w = np.ones(logits.shape[axis]) if weight is None else weight
    parts = classes_last(target * logs, axis) * w
    rows = -parts.sum(-1, keepdims=True)
    rows = np.moveaxis(rows, -1, axis)
    return reduce(rows, np.ones(rows.shape), rest.get("reduction", "none"))


def sigmoid_loss(
    x: Array,
    label: Array,
    weight: Array | float = 1.0,
    positive_weight: Array | float = 1.0,
) -> Array:
    yes, no = np.logaddexp(0, -x), np.logaddexp(0, x)
    return weight * (positive_weight * label * yes + (1 - label) * no)


def binary(x: Array, label: Array, weight: Array | float = 1.0) -> Array:
    yes, no = np.maximum(np.log(x), -100), np.maximum(np.log1p(-x), -100)
    return -weight * (label * yes + (1 - label) * no)


IDS: dict[str, tuple[tuple[int, ...], int, Any]] = {
    "rows": ((5, 4), -1, [0, 3, -100, 1, 3]),
    "column": ((5, 4), -1, [[0], [3], [-100], [1], [3]]),
    "pixels": ((2, 3, 2, 2), 1, [[[0, 1], [2, -100]], [[1, 1], [0, 2]]]),
}


def classes(op: str, kind: str, smoothing: float, weighted: bool, reduction: str) -> Case:
    shape, axis, ids = IDS[kind]
    scores = "logits" if op == "weighted_cross_entropy" else "x"
    inputs: dict[str, Source] = {scores: Random(shape, -3, 3), "label": Values(ids, "int64")}
    if weighted:
        inputs["weight"] = Random((shape[axis],), 0.25, 2.0)
    attrs: dict[str, Any] = {"axis": axis, "reduction": reduction}
    if op == "weighted_cross_entropy":
        attrs["label_smoothing"] = smoothing
    parts = (kind, str(smoothing), "weighted" if weighted else "", reduction)
    expected = cross_entropy if op == "weighted_cross_entropy" else nll
    return Case(
        op, inputs, expected, attrs, label="-".join(parts), ulps=16, magnitude=8.0, terms=16
    )


def soft(axis: int, smoothing: float, weighted: bool, reduction: str) -> Case:
    inputs: dict[str, Source] = {
        "logits": Random((3, 4, 4), -3, 3),
        "label": Random((3, 4, 4), 0.0, 0.25),
    }
    if weighted:
        inputs["weight"] = Random((4,), 0.25, 2.0)
    return Case(
        "weighted_cross_entropy",
        inputs,
        cross_entropy,
        {
            "soft_label": True,
            "axis": axis,
            "label_smoothing": smoothing,
            "reduction": reduction,
        },
        label=f"soft-{axis}-{smoothing}-{'weighted' if weighted else ''}-{reduction}",
        ulps=16,
        magnitude=8.0,
        terms=16,
    )


def elements(op: str, name: str, **slots: Source) -> Case:
    expected = binary if op == "binary_cross_entropy" else sigmoid_loss
    return Case(op, slots, expected, label=name, ulps=16, magnitude=4.0)


SIGMOID, BINARY = "weighted_sigmoid_cross_entropy", "binary_cross_entropy"
SCORES, SHARES, INSIDE = Random((3, 5), -4, 4), Random((3, 5), 0, 1), Random((3, 5), 0.05, 0.95)
WEIGHT = Random((5,), 0.25, 3.0)

CASES = (
    *(
        classes(op, kind, smoothing, weighted, reduction)
        for op in ("weighted_cross_entropy", "weighted_nll")
        for kind in IDS
        for smoothing in ((0.0, 0.25) if op == "weighted_cross_entropy" else (0.0,))
        for weighted in (False, True)
        for reduction in ("none", "mean", "sum")
    ),
    *(
        soft(axis, smoothing, weighted, reduction)
        for axis in (-1, 1)
        for smoothing in (0.0, 0.25)
        for weighted in (False, True)
        for reduction in ("none", "mean")
    ),
    *(
        Case(
            op,
            {scores: Random((0, 4)), "label": Values(np.empty(0), "int64")},
            expected,
            label="empty",
        )
        for op, scores, expected in (
            ("weighted_cross_entropy", "logits", cross_entropy),
            ("weighted_nll", "x", nll),
        )
    ),
    elements(SIGMOID, "scalar", x=Random(()), label=Random((), 0, 1)),
    elements(BINARY, "empty", x=Random((0, 5)), label=Random((0, 5))),
    elements(SIGMOID, "plain", x=SCORES, label=SHARES),
    elements(SIGMOID, "weighted", x=SCORES, label=SHARES, weight=WEIGHT),
    elements(SIGMOID, "positive", x=SCORES, label=SHARES, positive_weight=WEIGHT),
    elements(
        SIGMOID, "both", x=SCORES, label=SHARES, weight=Random((3, 1)), positive_weight=WEIGHT
    ),
    elements(SIGMOID, "empty", x=Random((0, 5)), label=Random((0, 5)), weight=WEIGHT),
    elements(BINARY, "plain", x=INSIDE, label=SHARES),
    elements(BINARY, "weighted", x=INSIDE, label=SHARES, weight=WEIGHT),
    elements(BINARY, "scalar", x=Random((), 0.1, 0.9), label=Random((), 0, 1)),
    Case(
        BINARY,
        {"x": Values([0.0, 1.0, 1.0, 0.0]), "label": Values([0.0, 1.0, 0.0, 1.0])},
        binary,
        label="certain",
        no_grad="1e12 times what is wrong, as PyTorch has it",
        dtypes=("float32", "float64"),
    ),
)
