"""Test cases of scaled_dot_product_attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from case import FLOATS, LENGTHS, Array, Case, Random, Source, Values


def attention(
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None = None,
    causal: bool = False,
    scale: float | None = None,
    softcap: float = 0.0,
    window: Sequence[int] = (),
    from_end: bool = False,
) -> tuple[Array, Array]:
    if q.ndim > 2 and q.shape[-3] != k.shape[-3]:
        times = q.shape[-3] // k.shape[-3]
        k, v = np.repeat(k, times, axis=-3), np.repeat(v, times, axis=-3)
    factor = 1 / math.sqrt(max(q.shape[-1], 1)) if scale is None else scale
    scores = factor * np.einsum("...id,...jd->...ij", q, k)
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    before, behind = window or (-1, -1)
    i, j = np.indices(scores.shape[-2:])
    away = j - i - (scores.shape[-1] - scores.shape[-2] if from_end else 0)
    if causal or behind >= 0:
        scores = np.where(away <= (0 if causal else behind), scores, -np.inf)
    if before >= 0:
        scores = np.where(away >= -before, scores, -np.inf)
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
        FLOATS,
        label,
        terms=16,
        ulps=8,
        magnitude=2.0,
    )


def cached(
    q: Array, k: Array, v: Array, past_k: Array, past_v: Array, **given: Any
) -> tuple[Array, Array, Array]:
    k, v = np.concatenate([past_k, k], axis=-2), np.concatenate([past_v, v], axis=-2)
    return attention(q, k, v, from_end=True, **given)[0], k, v


def with_past(
    past: int, new: int, label: str, mask: Source | None = None, heads: int = 4, **attrs: Any
) -> Case:
    inputs: dict[str, Source] = {"q": Random((2, 4, new, 3))}
    for slot, columns in (("k", 3), ("v", 5)):
        inputs[slot] = Random((2, heads, new, columns))
        inputs[f"past_{slot}"] = Random((2, heads, past, columns))
    if mask is not None:
        inputs["mask"] = mask
    return Case(
        "cached_attention",
        inputs,
        cached,
        attrs,
        label=label,
        outputs={"present_k": 1, "present_v": 1},
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
    case((2, 20, 16), (2, 70, 16), "tiles", columns=24),
    case((2, 70, 8), (2, 70, 8), "tiles-causal", causal=True, mask=boolean((2, 1, 70))),
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
    case((2, 3, 4), (2, 5, 4), "capped", softcap=0.5, causal=True),
    case(
        (2, 6, 4, 5), (2, 2, 6, 5), "capped-window", softcap=2.0, window=[1, 2], mask=Random((6,))
    ),
    case((2, 5, 4), (2, 7, 4), "window", window=[1, 2]),
    case((2, 2, 4), (2, 5, 4), "past", causal=True, from_end=True, mask=boolean((2, 2, 5))),
    case(
        (2, 2, 4),
        (2, 5, 4),
        "past-window",
        causal=True,
        from_end=True,
        window=[1, -1],
        mask=Random((5,)),
    ),
    with_past(5, 2, "causal", causal=True, heads=2),
    with_past(3, 1, "masked", mask=boolean((4,)), scale=0.5),
    with_past(0, 3, "none-yet", causal=True, window=[1, 0]),
    case((2, 130, 4), (2, 530, 4), "long"),
    case((1, 130, 4), (1, 130, 4), "long-causal", causal=True),
    case((1, 4, 70, 4), (1, 2, 70, 4), "short-causal", causal=True),
    case((1, 450, 4), (1, 500, 4), "long-causal-wide", causal=True),
    case((1, 2, 70, 8), (1, 1, 530, 8), "long-mask", mask=boolean((70, 530))),
)
