"""Test cases of nce and sampled_softmax."""

from __future__ import annotations

from typing import Any

import numpy as np
from case import LENGTHS, Array, Case, Random, Values


def logits(x: Array, rows: dict[str, Any], ids: Array, slot: str) -> Array:
    scores = x @ rows["weight"][ids].T
    if rows.get("bias") is not None:
        scores = scores + rows["bias"][ids]
    correction = rows.get(f"{slot}_log_probability")
    return scores if correction is None else scores - correction


def both(x: Array, label: Array, samples: Array, rows: dict[str, Any]) -> tuple[Array, Array]:
    """Return the logits of the labels and of the samples."""
    return np.diagonal(logits(x, rows, label, "label")), logits(x, rows, samples, "samples")


def nce(
    x: Array, label: Array, samples: Array, remove_accidental_hits: bool = False, **rows: Any
) -> Array:
    true, sampled = both(x, label, samples, rows)
    terms = np.logaddexp(0, sampled)
    if remove_accidental_hits:
        terms = np.where(label[:, None] == samples, 0.0, terms)
    return np.asarray(np.logaddexp(0, -true) + terms.sum(1))


def sampled_softmax(
    x: Array, label: Array, samples: Array, remove_accidental_hits: bool = True, **rows: Any
) -> Array:
    true, sampled = both(x, label, samples, rows)
    if remove_accidental_hits:
        sampled = np.where(label[:, None] == samples, -np.inf, sampled)
    everything = np.concatenate([true[:, None], sampled], 1)
    return np.asarray(np.logaddexp.reduce(everything, 1) - true)


SAMPLES = Values([4, 2, 1, 4, 3], "int64")


def case(op: str, label: str, n: int = 3, size: int = 4, **options: Any) -> Case:
    inputs = {
        "x": Random((n, size), -1, 1),
        "weight": Random((6, size), -1, 1),
        "label": Values([1, 4, 0][:n], "int64"),
        "samples": SAMPLES,
        **options.pop("given", {}),
    }
    reference = nce if op == "nce" else sampled_softmax
    return Case(op, inputs, reference, label=label, terms=size + 6, magnitude=4.0, **options)


BIAS = {"bias": Random((6,))}
CORRECTED = {
    "label_log_probability": Random((3,), -2, 0),
    "samples_log_probability": Random((5,), -2, 0),
}
CASES = tuple(
    each
    for op in ("nce", "sampled_softmax")
    for each in (
        *(case(op, f"size-{n}", size=n) for n in LENGTHS),
        case(op, "no-row", n=0),
        case(op, "bias", given=BIAS),
        case(op, "corrected", given=BIAS | CORRECTED),
        case(op, "without-hits", given=BIAS, attrs={"remove_accidental_hits": True}),
        case(op, "with-hits", given=BIAS, attrs={"remove_accidental_hits": False}),
        case(op, "no-sample", given={"samples": Values([], "int64")}),
    )
)
