"""Test cases of cosine_embedding_loss."""

from __future__ import annotations

import numpy as np
from case import LENGTHS, Array, Case, Random, Source, Values


def cosine_embedding_loss(x: Array, y: Array, label: Array, margin: float = 0.0) -> Array:
    norms = [np.maximum(np.sqrt((vector**2).sum(-1)), 1e-6) for vector in (x, y)]
    cosine = (x * y).sum(-1) / (norms[0] * norms[1])
    unlike = np.where(label == -1, np.maximum(cosine - margin, 0), 0)
    return np.where(label == 1, 1 - cosine, unlike)


LABELS = Values([1, -1, 1, -1, 1, -1, 0])


def case(length: int, label: str, **attrs: float) -> Case:
    inputs: dict[str, Source] = {
        "x": Random((7, length), 0.1, 2.0),
        "y": Random((7, length), 0.1, 2.0),
        "label": LABELS,
    }
    return Case(
        "cosine_embedding_loss",
        inputs,
        cosine_embedding_loss,
        attrs,
        label=label,
        terms=length,
    )


CASES = (
    *(case(n, str(n)) for n in LENGTHS if n),
    case(5, "margin", margin=0.3),
    case(5, "wide-margin", margin=-0.5),
    Case(
        "cosine_embedding_loss",
        {"x": Random((2, 3, 4)), "y": Random((2, 3, 4)), "label": Values(np.ones((2, 3)))},
        cosine_embedding_loss,
        label="more-axes",
        terms=4,
    ),
    Case(
        "cosine_embedding_loss",
        {"x": Random((4,)), "y": Random((4,)), "label": Values(1.0)},
        cosine_embedding_loss,
        label="one-pair",
        terms=4,
    ),
    Case(
        "cosine_embedding_loss",
        {"x": Random((0, 4)), "y": Random((0, 4)), "label": Values(np.empty(0))},
        cosine_embedding_loss,
        label="no-rows",
    ),
    Case(
        "cosine_embedding_loss",
        {
            "x": Values([[1.0, 0.0], [1.0, 1.0], [-2.0, 0.0], [3.0, 4.0]]),
            "y": Values([[0.0, 2.0], [-1.0, -1.0], [1.0, 0.0], [3.0, 4.0]]),
            "label": Values([-1, -1, 1, 0]),
        },
        cosine_embedding_loss,
        label="special",
    ),
)
