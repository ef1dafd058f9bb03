"""Test cases of dropout_attention; test_dropout_attention.py checks dropped weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from case import Array, Case, Random, Source, Values


def attention(
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None = None,
    causal: bool = False,
    **_: Any,
) -> Array:
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    allowed = np.ones(scores.shape, bool) if mask is None else np.broadcast_to(mask, scores.shape)
    if causal:
        allowed = allowed & np.tril(np.ones(scores.shape[-2:], bool))
    scores = np.where(allowed, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def inputs(*leading: int, queries: int = 5, keys: int = 6) -> dict[str, Source]:
    return {
        "q": Random((*leading, queries, 4)),
        "k": Random((*leading, keys, 4)),
        "v": Random((*leading, keys, 3)),
    }


def case(given: dict[str, Source], label: str, **attrs: Any) -> Case:
    return Case("dropout_attention", given, attention, attrs, label=label, ulps=16, terms=16)


MASK = Values([True, True, False, True, True, False], "bool")
DROPPED = {"probability": 0.4, "training": True, "seed": 3, "stream": 2}

CASES = (
    case(inputs(2, 3), "predicting", probability=0.5),
    case(inputs(2), "of-nothing", training=True),
    case(inputs(queries=6), "causal", causal=True, probability=0.5),
    case({**inputs(2), "mask": MASK}, "masked", probability=0.5),
    *(
        # The step is explicit, since the step of a program advances between runs and changes the
        # mask.
        Case(
            "dropout_attention",
            {**inputs(2, 3, queries=6), **more, "step": Values([3], "int64")},
            None,
            {**DROPPED, **attrs},
            label=f"training-{label}",
        )
        for label, more, attrs in (
            ("plain", {}, {}),
            ("masked", {"mask": MASK}, {"causal": True}),
            ("scaled", {}, {"scale": 0.3}),
        )
    ),
)
