"""Inputs of operators that the other sampler modules do not cover."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from opwright_std.samples.drawn import Drawn, proposed, proposed_with

if TYPE_CHECKING:
    from opwright_kit.testing import Draw


def probabilities(draw: Draw) -> Drawn:
    """Draw probabilities between 0 and 1, with finite logarithms."""
    inputs = draw.propose()
    if inputs is None:
        return None
    inputs["x"] = tuple(np.asarray(np.abs(array) / 4 + 0.25) for array in inputs["x"])
    return inputs, draw.attrs


def top_k(draw: Draw) -> Drawn:
    """Propose inputs; without `sorted` any order is allowed."""
    draw.without_effect["sorted"] = "the kernels sort in either case"
    draw.drops_nan = "NaN sorts differently from the number it replaces"
    inputs = draw.propose()
    if inputs is None:
        return None
    shape, axis = inputs["x"][0].shape or (1,), draw.attrs["axis"]
    if -len(shape) <= axis < len(shape):
        draw.refused["indices"] = (-1, shape[axis])
    return inputs, draw.attrs


accuracy = proposed_with(drops_nan="only the largest score is counted")
"""Proposes inputs; the fraction of rows is finite for any scores."""


def compared(draw: Draw) -> Drawn:
    """Propose inputs for functions whose gradient compares the input with bounds."""
    if draw.attrs.get("alpha", 0.0) == 0.0:  # leaky_relu has its derivative for x < 0 there
        draw.flat_at_nan = "NaN compares false with bounds; PyTorch's gradient is 0, too"
    return proposed(draw)


def likelihoods(draw: Draw) -> Drawn:
    """Propose inputs with variances of at least 0."""
    drawn = compared(draw)
    if drawn is None:
        return None
    return {**drawn[0], "variance": np.asarray(np.abs(drawn[0]["variance"][0]))}, drawn[1]


saturated = proposed_with(loses_tails="1 - out, which avoids saving x, cancels for out near 1")
"""Proposed inputs of functions differentiated from their output."""


SAMPLES = {
    "accuracy": accuracy,
    "clip": compared,
    "cross_entropy": probabilities,
    "gaussian_nll": likelihoods,
    "leaky_relu": compared,
    "logit": compared,
    "multi_margin_loss": compared,
    "multilabel_margin_loss": compared,
    "sigmoid": saturated,
    "tanh": saturated,
    "top_k": top_k,
}
