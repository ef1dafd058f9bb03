"""Cases of scaled_dot_product_attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from case import LENGTHS, Array, Case, Random, Source, Values


def attention(
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> tuple[Array, Array]:
    if q.ndim > 2 and q.shape[-3] != k.shape[-3]:
        times = q.shape[-3] // k.shape[-3]
        k, v = np.repeat(k, times, axis=-3), np.repeat(v, times, axis=-3)
    factor = 1 / math.sqrt(max(q.shape[-1], 1)) if scale is None else scale
    scores = factor * np.einsum("...id,...jd->...ij", q, k)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    if causal:
        i, j = np.indices(scores.shape[-2:])
        scores = np.where(j <= i, scores, -np.inf)
    total = np.exp(scores).sum(-1, keepdims=True)
    weights = np.exp(scores) / np.where(total == 0, 1, total)
    return np.einsum("...ij,...jd->...id", weights, v), np.log(total)[..., 0]


def case(
    q: tuple[int, ...],
    k: tuple[int, ...],
    label: str,
    columns: int = 0,
    mask: Source | None = None,
    **attrs: Any,
) -> Case:
    inputs: dict[str, Source] = {"q": Random(q), "k": Random(k)}
    inputs["v"] = Random((*k[:-1], columns or k[-1]))
    if mask is not None:
        inputs["mask"] = mask
    return Case(
        "scaled_dot_product_attention",
        inputs,
        attention,
        attrs,
        label=label,
        terms=16,
        ulps=8,
        magnitude=2.0,
    )


def boolean(shape: tuple[int, ...]) -> Random:
    return Random(shape, dtype="bool")


NOTHING = Values([[True, False, True], [False, False, False]], "bool")

CASES = (
    *(case((2, n, 4), (2, 5, 4), f"queries-{n}") for n in LENGTHS),
    *(case((2, 3, 4), (2, n, 4), f"keys-{n}") for n in LENGTHS if n),
    *(case((2, 3, n), (2, 5, n), f"size-{n}") for n in LENGTHS if n),
    case((3, 4), (5, 4), "matrices"),
    case((0, 3, 4), (0, 5, 4), "empty"),
    case((2, 3, 4), (2, 0, 4), "no-keys"),
    case((2, 3, 4, 5), (2, 3, 6, 5), "columns", columns=7),
    case((2, 6, 4, 5), (2, 2, 6, 5), "shared-heads"),
    case((2, 3, 4), (2, 5, 4), "scale", scale=0.25),
    case((2, 5, 4), (2, 5, 4), "causal", causal=True),
    case((2, 3, 4), (2, 5, 4), "causal-wide", causal=True),
    case((2, 5, 4), (2, 3, 4), "causal-tall", causal=True),
    case((2, 3, 4), (2, 3, 4), "causal-mask", causal=True, mask=boolean((2, 3, 3))),
    case((1, 2, 4), (1, 3, 4), "nothing-seen", mask=NOTHING),
    case((2, 3, 4), (2, 5, 4), "mask", mask=boolean((2, 3, 5))),
    case((2, 2, 3, 4), (2, 2, 5, 4), "mask-of-keys", mask=boolean((2, 1, 1, 5))),
    case((2, 2, 3, 4), (2, 2, 5, 4), "mask-of-queries", mask=boolean((3, 1))),
    case((2, 2, 3, 4), (2, 2, 5, 4), "bias", mask=Random((2, 3, 5))),
    case((2, 3, 4), (2, 5, 4), "bias-of-keys", mask=Random((5,))),
    case((2, 130, 4), (2, 530, 4), "long"),
    case((1, 130, 4), (1, 130, 4), "long-causal", causal=True),
    case((1, 4, 70, 4), (1, 2, 70, 4), "short-causal", causal=True),
    case((1, 450, 4), (1, 500, 4), "long-causal-wide", causal=True),
    case((1, 2, 70, 4), (1, 1, 530, 4), "long-mask", mask=boolean((70, 530))),
)
