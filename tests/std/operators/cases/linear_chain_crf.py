"""Test cases of linear_chain_crf and viterbi_decode; the references score every tag sequence."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
from case import LENGTHS, WIDE, Array, Case, Random, Source, Values


def scores(x: Array, transition: Array, start: Array, end: Array) -> dict[tuple[int, ...], float]:
    """Return the score of every tag sequence, grouped by last tag."""
    steps, size = x.shape
    found = {}
    for turned in product(range(size), repeat=steps):
        path = turned[::-1]
        score = start[path[0]] + sum(x[i, tag] for i, tag in enumerate(path)) + end[path[-1]]
        score += sum(transition[a, b] for a, b in pairwise(path))
        found[path] = float(score)
    return found


def chains(x: Array, start: Any, end: Any, lengths: Any) -> list[tuple[Array, Array, Array]]:
    zeros = np.zeros(x.shape[2])
    ends = tuple(zeros if weights is None else weights for weights in (start, end))
    counts = [x.shape[1]] * len(x) if lengths is None else lengths
    return [(x[i, : counts[i]], *ends) for i in range(len(x))]


def linear_chain_crf(
    x: Array,
    label: Array,
    transition: Array,
    start: Array | None = None,
    end: Array | None = None,
    lengths: Array | None = None,
) -> tuple[Array, None]:
    out = []
    for i, (part, first, last) in enumerate(chains(x, start, end, lengths)):
        if len(part) == 0:
            out.append(0.0)
            continue
        found = scores(part, transition, first, last)
        right = found[tuple(label[i, : len(part)].tolist())]
        out.append(right - np.logaddexp.reduce(list(found.values())))
    return np.array(out), None


def viterbi_decode(
    x: Array,
    transition: Array,
    start: Array | None = None,
    end: Array | None = None,
    lengths: Array | None = None,
) -> tuple[Array, Array]:
    out, paths = [], np.zeros(x.shape[:2], np.int64)
    for i, (part, first, last) in enumerate(chains(x, start, end, lengths)):
        found = scores(part, transition, first, last) if len(part) else {(): 0.0}
        best = max(found, key=lambda path: found[path])  # the first of several best paths
        out.append(found[best])
        paths[i, : len(best)] = best
    return np.array(out), paths


def cases(
    name: str,
    shape: tuple[int, int, int],
    weights: tuple[str, ...] = (),
    given: dict[str, Source] | None = None,
    **options: Any,
) -> list[Case]:
    """Return one case per operator."""
    n, steps, tags = shape
    inputs: dict[str, Source] = {"x": Random(shape), "transition": Random((tags, tags))}
    inputs |= {slot: Random((tags,)) for slot in weights} | (given or {})
    right = {"label": Random((n, steps), 0, tags - 1, dtype="int64")} | inputs
    decoded = {slot: source for slot, source in inputs.items() if slot != "label"}
    common: dict[str, Any] = {"label": name, "terms": 4 * steps + tags, "magnitude": 8.0, **options}
    return [
        Case("linear_chain_crf", right, linear_chain_crf, **common),
        Case(
            "viterbi_decode",
            decoded,
            viterbi_decode,
            **common | {"no_grad": "its path is positions"},
        ),
    ]


CASES = (
    *(c for n in LENGTHS if n for c in cases(f"tags-{n}", (2, 2, n), ("start", "end"))),
    *(c for n in (0, 1, 2, 5) for c in cases(f"steps-{n}", (3, n, 3), ("start",))),
    *cases("plain", (2, 4, 3)),
    *cases("end", (2, 3, 4), ("end",)),
    *cases("no-sequence", (0, 3, 4), ("start", "end")),
    *cases("many", (37, 3, 3), ("start", "end")),
    *cases(
        "lengths",
        (5, 4, 3),
        ("start", "end"),
        {
            "lengths": Values([4, 0, 1, 3, 2], "int32"),
            "label": Values(  # the padding is arbitrary
                [[0, 1, 2, 0], [-1, 9, 9, 9], [2, -7, 5, 3], [1, 1, 2, 99], [0, 2, -100, -100]],
                "int32",
            ),
        },
    ),
    # Very low transition scores, as for forbidden transitions, whose exp underflows in float32.
    *cases(
        "rare",
        (2, 4, 3),
        ("end",),
        {
            "transition": Values([[0.5, -200.0, -150.0], [-180.0, 0.25, -200.0], [1.0, -90.0, 0]]),
            "label": Values([[0, 1, 1, 2], [2, 0, 0, 0]], "int64"),
        },
        magnitude=400.0,
        dtypes=WIDE,
    ),
    *cases("long", (2, 7, 2), ("start", "end"), magnitude=20.0),
)
