"""Test cases of sigmoid_cross_entropy_with_logits."""

from __future__ import annotations

import numpy as np
from case import LENGTHS, Array, Case, Random, Values


def loss(x: Array, label: Array) -> Array:
    """Compute -label ln(s) - (1 - label) ln(1 - s) with s = sigmoid(x) in long double."""
    wide = x.astype(np.longdouble)
    yes, no = np.logaddexp(0, -wide), np.logaddexp(0, wide)
    return (label * yes + (1 - label) * no).astype(float)


OP = "sigmoid_cross_entropy_with_logits"
FAR = Values([1000.0, -1000.0, 90.0, -90.0, 0.0, 20.0])

CASES = (
    *(
        Case(OP, {"x": Random((n,)), "label": Random((n,), 0.0, 1.0)}, loss, label=str(n))
        for n in LENGTHS
    ),
    Case(OP, {"x": Random((3, 4)), "label": Random((3, 4), 0.0, 1.0)}, loss, label="matrix"),
    Case(OP, {"x": Random(()), "label": Random((), 0.0, 1.0)}, loss, label="scalar"),
    Case(OP, {"x": FAR, "label": Values([1.0, 0.0, 0.0, 1.0, 0.5, 1.0])}, loss, label="far"),
)
