"""Test cases of dropout; its mask is checked in test_dropout.py."""

from __future__ import annotations

import numpy as np
from case import FLOATS, LENGTHS, WIDE, Array, Case, Random, Values


def not_training(x: Array, probability: float = 0.5) -> tuple[Array, Array]:
    return x, np.ones(x.shape, bool)


def drop_all(x: Array, probability: float, training: bool) -> tuple[Array, Array]:
    return np.zeros(x.shape), np.zeros(x.shape, bool)


def drop_none(x: Array, probability: float, training: bool) -> tuple[Array, Array]:
    return x, np.ones(x.shape, bool)


CASES = (
    *(Case("dropout", {"x": Random((n,))}, not_training, label=str(n), ulps=0) for n in LENGTHS),
    Case("dropout", {"x": Random((3, 5))}, not_training, dtypes=FLOATS, label="matrix", ulps=0),
    Case("dropout", {"x": Random(())}, not_training, {"probability": 0.9}, WIDE, "scalar", ulps=0),
    *(
        Case(
            "dropout",
            {"x": Random((4, 5))},
            expected,
            {"probability": probability, "training": True},
            label=label,
            ulps=0,
        )
        for label, probability, expected in (("all", 1.0, drop_all), ("none", 0.0, drop_none))
    ),
    Case(
        "dropout",
        # The step is explicit, since the step of a program advances between runs and changes the
        # mask.
        {"x": Random((5, 7)), "step": Values([3], "int64")},
        None,
        {"probability": 0.3, "training": True, "seed": 3, "stream": 2},
        label="training",
    ),
)
