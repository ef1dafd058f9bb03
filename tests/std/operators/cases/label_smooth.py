"""Test cases of label_smooth."""

from __future__ import annotations

import numpy as np
from case import LENGTHS, Array, Case, Random, Source, Values


def label_smooth(x: Array, prior: Array | None = None, epsilon: float = 0.1) -> Array:
    share = np.full(x.shape, 1 / max(x.shape[-1], 1)) if prior is None else prior
    return x + epsilon * (share - x)


def case(x: Source, label: str, prior: Source | None = None, **attrs: float) -> Case:
    inputs = {"x": x} if prior is None else {"x": x, "prior": prior}
    return Case("label_smooth", inputs, label_smooth, attrs, label=label)


CASES = (
    *(case(Random((3, n), 0, 1), f"classes-{n}") for n in LENGTHS),
    case(Random((5,), 0, 1), "vector", epsilon=0.25),
    case(Random((2, 0, 3)), "no-rows"),
    case(Values(np.eye(4)[[2, 0, 3]]), "one-hot"),
    case(Random((3, 4), 0, 1), "prior", Random((4,), 0, 1)),
    case(Random((2, 3, 4), 0, 1), "prior-row", Random((1, 4), 0, 1), epsilon=0.5),
    case(Random((3, 4), 0, 1), "priors", Random((3, 4), 0, 1), epsilon=1.0),
    case(Random((3, 4), 0, 1), "none", Random((4,), 0, 1), epsilon=0.0),
)
