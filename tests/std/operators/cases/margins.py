"""Test cases of likelihood losses and margin losses, as PyTorch defines them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from case import FLOATS, WIDE, Array, Case, Random, Values


def gaussian(
    x: Array, label: Array, variance: Array, eps: float = 1e-6, full: bool = False
) -> Array:
    v = np.maximum(variance, eps)
    return 0.5 * (np.log(v) + (x - label) ** 2 / v) + (0.5 * math.log(2 * math.pi) if full else 0)


def poisson(
    x: Array, label: Array, log_input: bool = True, eps: float = 1e-8, full: bool = False
) -> Array:
    loss = np.exp(x) - label * x if log_input else x - label * np.log(x + eps)
    many = np.maximum(label, 1)
    stirling = many * np.log(many) - many + 0.5 * np.log(2 * math.pi * many)
    return loss + (np.where(label > 1, stirling, 0) if full else 0)


def soft_margin(x: Array, label: Array) -> Array:
    return np.logaddexp(0, -label * x)


def multi_margin(
    x: Array, label: Array, weight: Array | None = None, p: int = 1, margin: float = 1.0
) -> Array:
    out = np.zeros(label.shape)
    for place in np.ndindex(label.shape):
        row, own = x[place], label[place]
        parts = [max(0, margin - row[own] + row[j]) ** p for j in range(len(row)) if j != own]
        out[place] = sum(parts) / len(row) * (1 if weight is None else weight[own])
    return out


def multilabel_margin(x: Array, label: Array, margin: float = 1.0) -> Array:
    out = np.zeros(label.shape[:-1])
    for place in np.ndindex(out.shape):
        row, ids = x[place], list(label[place])
        own = ids[: next((i for i, c in enumerate(ids) if c < 0), len(ids))]
        others = [j for j in range(len(row)) if j not in own]
        parts = [max(0, margin - row[c] + row[j]) for c in own for j in others]
        out[place] = sum(parts) / len(row)
    return out


def multilabel_soft_margin(x: Array, label: Array, weight: Array | None = None) -> Array:
    losses = label * np.logaddexp(0, -x) + (1 - label) * np.logaddexp(0, x)
    return (losses * (1 if weight is None else weight)).mean(-1)


def triplet(
    anchor: Array,
    positive: Array,
    negative: Array,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
) -> Array:
    def distance(x: Array, y: Array) -> Array:
        return (np.abs(x - y + eps) ** p).sum(-1) ** (1 / p)

    apart = distance(anchor, negative)
    if swap:
        apart = np.minimum(apart, distance(positive, negative))
    return np.maximum(0, margin + distance(anchor, positive) - apart)


POSITIVE: dict[str, Any] = {"low": 0.5, "high": 3.0}
FEW = {"x": Random((5,)), "label": Random((5,), **POSITIVE)}
NONE = {"x": Random((0, 4)), "label": Random((0, 4))}
CLASSES = {"x": Random((2, 3, 4), distinct=True), "label": Values([[0, 3, 1], [2, 2, 0]], "int64")}
WEIGHTED = {**CLASSES, "weight": Random((4,), **POSITIVE)}
VECTORS = {slot: Random((3, 5)) for slot in ("anchor", "positive", "negative")}

CASES = (
    Case(
        "gaussian_nll",
        {"x": Random((3, 4)), "label": Random((3, 4)), "variance": Random((3, 1), **POSITIVE)},
        gaussian,
        {"full": True},
        FLOATS,
        label="full",
        ulps=8,
        magnitude=4.0,
    ),
    Case(
        "gaussian_nll",
        {"x": Random((3,)), "label": Random((3,)), "variance": Values([0.0, 0.25, 0.75])},
        gaussian,
        {"eps": 0.5},
        label="least",
        ulps=8,
    ),
    Case(
        "poisson_nll",
        {"x": Random((3, 4)), "label": Random((3, 4), **POSITIVE)},
        poisson,
        dtypes=FLOATS,
        label="logarithms",
        magnitude=8.0,
    ),
    Case(
        "poisson_nll",
        {"x": Random((5,), **POSITIVE), "label": Values([0.0, 0.5, 1.5, 3.0, 7.0])},
        poisson,
        {"log_input": False, "full": True},
        label="rates",
        magnitude=8.0,
    ),
    Case(
        "soft_margin_loss",
        {"x": Random((4,)), "label": Values([1.0, -1.0, -1.0, 1.0])},
        soft_margin,
        dtypes=FLOATS,
        label="signs",
    ),
    *(
        Case(
            "multi_margin_loss",
            inputs,
            multi_margin,
            attrs,
            dtypes,
            label=label,
            ulps=8,
            magnitude=2.0,
        )
        for label, inputs, attrs, dtypes in (
            ("plain", CLASSES, {"margin": 0.7}, FLOATS),
            ("squares", WEIGHTED, {"p": 2}, WIDE),
        )
    ),
    *(
        Case(
            "multilabel_margin_loss",
            {"x": Random((len(ids), 4), distinct=True), "label": Values(ids, dtype)},
            multilabel_margin,
            attrs,
            FLOATS,
            label=label,
            ulps=8,
            magnitude=4.0,
        )
        for label, dtype, ids, attrs in (
            ("several", "int64", [[3, 1, -1, 0], [-1, 2, 2, 2], [0, 1, 2, 3]], {}),
            ("margin", "int32", [[2, 2, -5, 0]], {"margin": 0.3}),
            ("0", "int64", np.zeros((0, 4)), {}),
        )
    ),
    *(
        Case(
            "multilabel_soft_margin_loss",
            {"x": Random(shape), "label": Random(shape, low=0.0, high=1.0), **more},
            multilabel_soft_margin,
            dtypes=FLOATS,
            label=label,
            ulps=8,
        )
        for label, shape, more in (
            ("plain", (2, 3, 4), {}),
            ("weighted", (3, 4), {"weight": Random((4,), **POSITIVE)}),
            ("0", (0, 4), {}),
        )
    ),
    *(
        Case(
            "triplet_margin_loss",
            VECTORS,
            triplet,
            attrs,
            WIDE,
            label=label,
            ulps=16,
            magnitude=4.0,
        )
        for label, attrs in (
            ("plain", {"margin": 3.0}),
            ("swap", {"margin": 4.0, "swap": True, "p": 3.0, "eps": 1e-3}),
        )
    ),
    *(
        Case(op, {**inputs, **more}, expected, label=label, magnitude=8.0)
        for op, expected, more in (
            ("gaussian_nll", gaussian, {"variance": Random((), **POSITIVE)}),
            ("poisson_nll", poisson, {}),
            ("soft_margin_loss", soft_margin, {}),
        )
        for label, inputs in (("few", FEW), ("0", NONE))
    ),
    *(
        Case(
            "multi_margin_loss",
            {"x": Random(x, distinct=True), "label": Values(ids, "int32")},
            multi_margin,
            label=label,
        )
        for label, x, ids in (("one", (5,), 3), ("0", (0, 4), np.zeros(0)))
    ),
)
