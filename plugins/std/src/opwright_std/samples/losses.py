"""Inputs of losses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from opwright_std.samples.drawn import Drawn

if TYPE_CHECKING:
    from opwright_kit.testing import Draw


def probabilities(draw: Draw) -> Drawn:
    """Draw probabilities between 0 and 1, with finite logarithms."""
    inputs = draw.propose()
    if inputs is None:
        return None
    of_probabilities = draw.definition.op_type.startswith(("log_loss", "binary_cross_entropy"))
    slots = ("x", "label") if of_probabilities else ("label",)
    for slot in slots:
        inputs[slot] = tuple(np.asarray(0.2 + 0.1 * np.abs(array)) for array in inputs[slot])
    return inputs, draw.attrs


def ctc_loss(draw: Draw) -> Drawn:
    """Draw labels other than blank, with enough time steps."""
    draw.drops_nan = "no path goes through every class at every time"
    draw.without_effect["zero_infinity"] = "every row has a path"
    n, time = (draw.length, 7) if draw.rows else (3, draw.length)
    draw.attrs["blank"] = 0
    label = draw.integers((n, min(time // 2, 5)), 1, 4)
    draw.refused["label"] = (-1, 0, 4)
    return {"x": draw.floats((n, time, 4), -2.0, 0.0), "label": label}, draw.attrs


def auc(draw: Draw) -> Drawn:
    """Draw probabilities as scores, and states with one element per bin."""
    draw.drops_nan = "only probabilities are accepted"
    bins = draw.attrs["num_thresholds"] = 7
    draw.refused["label"] = (-1, 2)
    states = {slot: draw.integers((bins + 1,), 0, 9) for slot in ("positives", "negatives")}
    x = draw.floats((draw.length,), 0.0, 1.0)
    return {"x": x, "label": draw.integers((draw.length,), 0, 2), **states}, draw.attrs


def precision_recall(draw: Draw) -> Drawn:
    """Draw states with one row per class."""
    draw.drops_nan = "only the largest score is counted"
    n, classes = (draw.length, 3) if draw.rows else (5, max(draw.length, 1))
    draw.refused["label"] = (-1, classes)
    x, label = draw.floats((n, classes)), draw.integers((n,), 0, classes)
    return {"x": x, "label": label, "states": draw.integers((classes, 4), 0, 9)}, draw.attrs


def triplets(draw: Draw) -> Drawn:
    """Draw vectors of 3 components, since distances on a line may not depend on every point."""
    shape = (draw.other_length() + 1, 3)
    vectors = {slot: draw.floats(shape) for slot in ("anchor", "positive", "negative")}
    return vectors, draw.attrs


SAMPLES = {
    "auc": auc,
    "binary_cross_entropy": probabilities,
    "ctc_loss": ctc_loss,
    "kl_div": probabilities,
    "log_loss": probabilities,
    "precision_recall": precision_recall,
    "triplet_margin_loss": triplets,
}
