"""Test cases of multi_head_attention; the reference computes head by head."""

from __future__ import annotations

from typing import Any

import numpy as np
from case import Array, Case, Random, Values


def multi_head_attention(
    query: Array,
    key: Array,
    value: Array,
    num_heads: int,
    mask: Array | None = None,
    causal: bool = False,
    **projections: Array,
) -> Array:
    def projected(x: Array, part: str) -> Array:
        return x @ projections[f"{part}_weight"] + projections.get(f"{part}_bias", 0.0)

    q, k, v = projected(query, "q"), projected(key, "k"), projected(value, "v")
    heads = []
    for head in range(num_heads):
        parts = [
            np.split(part, num_heads, -1)[head] if part.size else part[..., : part.shape[-1] // 2]
            for part in (q, k, v)
        ]
        scores = parts[0] @ parts[1].swapaxes(-1, -2) / parts[0].shape[-1] ** 0.5
        allowed = np.ones(scores.shape, bool)
        if mask is not None:
            allowed &= np.broadcast_to(mask, (len(query), num_heads, *scores.shape[1:]))[:, head]
        if causal:
            allowed &= np.tri(*scores.shape[1:], dtype=bool)
        weights = np.where(allowed, np.exp(scores), 0.0)
        heads.append(weights / weights.sum(-1, keepdims=True) @ parts[2])
    return projected(np.concatenate(heads, -1), "out")


def heads(label: str, n: int = 2, mask: Any = None, biases: bool = True, **attrs: Any) -> Case:
    inputs: dict[str, Any] = {
        "query": Random((n, 3, 5), -1.0, 1.0),
        "key": Random((n, 4, 3), -1.0, 1.0),
        "value": Random((n, 4, 2), -1.0, 1.0),
    }
    for part, shape in (("q", (5, 4)), ("k", (3, 4)), ("v", (2, 6)), ("out", (6, 3))):
        inputs[f"{part}_weight"] = Random(shape, -1.0, 1.0)
        if biases:
            inputs[f"{part}_bias"] = Random(shape[1:])
    if mask is not None:
        inputs["mask"] = Values(mask, "bool")
    return Case(
        "multi_head_attention",
        inputs,
        multi_head_attention,
        {"num_heads": 2, **attrs},
        label=label,
        ulps=32,
        terms=16,
        magnitude=4.0,
    )


CASES = (
    heads("plain", biases=False),
    heads("causal", causal=True),
    heads("mask", mask=[[[[True, False, True, True]]], [[[False, True, True, False]]]]),
    heads("empty", n=0, biases=False),
)
