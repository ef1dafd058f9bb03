"""What the OpProto of an operator cannot say of its inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from opwright_std.samples.drawn import Drawn, proposed

if TYPE_CHECKING:
    from opwright_kit.testing import Draw


def probabilities(draw: Draw) -> Drawn:
    """Probabilities lie between 0 and 1: the logarithm of others is no number."""
    inputs = draw.propose()
    if inputs is None:
        return None
    inputs["x"] = tuple(np.asarray(np.abs(array) / 4 + 0.25) for array in inputs["x"])
    return inputs, draw.attrs


def top_k(draw: Draw) -> Drawn:
    """Inputs as they are proposed; without `sorted` any order will do."""
    draw.without_effect["sorted"] = "the kernels sort in either case"
    draw.drops_nan = "NaN takes another place in the order than the number did"
    inputs = draw.propose()
    if inputs is None:
        return None
    shape, axis = inputs["x"][0].shape or (1,), draw.attrs["axis"]
    if -len(shape) <= axis < len(shape):
        draw.refused["indices"] = (-1, shape[axis])
    return inputs, draw.attrs


def accuracy(draw: Draw) -> Drawn:
    """Inputs as they are proposed; a share of rows is a number whatever the scores are."""
    draw.drops_nan = "which score is the largest is counted, and a count is a number"
    return proposed(draw)


def compared(draw: Draw) -> Drawn:
    """Inputs as they are proposed, of functions whose gradient asks where an input lies."""
    if draw.attrs.get("alpha", 0.0) == 0.0:  # leaky_relu has its slope below 0 there
        draw.flat_at_nan = "NaN lies in no range, and above no number; PyTorch's slope is 0, too"
    return proposed(draw)


def saturated(draw: Draw) -> Drawn:
    """Inputs as they are proposed, of functions that are differentiated from their output."""
    draw.loses_tails = "1 - out, by which x need not be kept, has few digits where out is almost 1"
    return proposed(draw)


SAMPLES = {
    "accuracy": accuracy,
    "clip": compared,
    "cross_entropy": probabilities,
    "gaussian_nll": compared,
    "leaky_relu": compared,
    "logit": compared,
    "multi_margin_loss": compared,
    "multilabel_margin_loss": compared,
    "sigmoid": saturated,
    "tanh": saturated,
    "top_k": top_k,
}
