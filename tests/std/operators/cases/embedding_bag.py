"""Test cases of embedding_bag; the reference computes row by row."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from case import Array, Case, Random, Values

INDEX = [2, 0, 2, 4, 1, 3, 0, 2]


def embedding_bag(
    weight: Array,
    index: Array,
    offsets: Array | None = None,
    per_sample_weights: Array | None = None,
    mode: str = "mean",
    padding_index: int = -1,
    include_last_offset: bool = False,
) -> Array:
    if offsets is None:
        ends = [bag * index.shape[1] for bag in range(len(index) + 1)]
    else:
        ends = list(offsets) if include_last_offset else [*offsets, index.size]
    ids = index.reshape(-1)
    shares = np.ones(ids.size) if per_sample_weights is None else per_sample_weights.reshape(-1)
    out = np.zeros((len(ends) - 1, weight.shape[1]))
    for bag, (begin, end) in enumerate(itertools.pairwise(ends)):
        rows = [weight[ids[i]] * shares[i] for i in range(begin, end) if ids[i] != padding_index]
        if rows:
            out[bag] = {"sum": np.sum, "mean": np.mean, "max": np.max}[mode](rows, axis=0)
    return out


def bags(label: str, width: int = 3, **options: Any) -> Case:
    inputs: dict[str, Any] = {"weight": Random((5, width), distinct=True)}
    if options.pop("rows", False):
        inputs["index"] = Values(np.array(INDEX).reshape(4, 2), "int32")
        samples: tuple[int, ...] = (4, 2)
    else:
        inputs["index"] = Values(INDEX, "int64")
        inputs["offsets"] = Values(options.pop("offsets", [0, 3, 3, 7]), "int64")
        samples = (8,)
    if options.pop("weighted", False):
        inputs["per_sample_weights"] = Random(samples)
    return Case(
        "embedding_bag",
        inputs,
        embedding_bag,
        options,
        label=label,
        dtypes=("float16", "float32", "float64"),
        terms=8,
        magnitude=4.0,
    )


CASES = (
    bags("sum", mode="sum"),
    bags("mean-padding", padding_index=2),
    bags("max", mode="max", padding_index=0),
    bags("weighted", weighted=True, mode="sum", width=17),
    bags("weighted-rows", weighted=True, rows=True, mode="sum", padding_index=2),
    bags("mean-rows", rows=True, width=33),
    bags("max-rows", rows=True, mode="max"),
    bags("last-offset", offsets=[0, 3, 3, 6], include_last_offset=True),
    bags("no-columns", width=0),
    bags("no-bags", offsets=[]),
)
