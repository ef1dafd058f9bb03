"""Losses reduced to a scalar; a network summary shows such a loss as one layer."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import AttributeValueError

X = np.array([[0.5, -2.0, 0.25], [1.5, 0.0, -0.75]], np.float32)
Y = np.array([[1.0, -1.0, 1.0], [-1.0, 1.0, -1.0]], np.float32)

ELEMENTWISE = ("mse", "l1", "smooth_l1", "huber", "hinge")
PAIRS = ("margin_rank_loss", "rank_loss")


def compute(kind, **options):
    """Return a loss of X and Y, or of X and -X if the loss compares pairs."""
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        x, y = (nn.layers.data(name, shape=[None, 3]) for name in "xy")
        inputs = (x, 0.0 - x, y) if kind in PAIRS else (x, y)
        loss = getattr(nn.layers, kind)(*inputs, **options)
    return ow.Network(main.global_block()).compile(feed=["x", "y"], fetch=[loss])(x=X, y=Y)[0]


@pytest.mark.parametrize("kind", [*ELEMENTWISE, *PAIRS])
def test_a_reduced_loss_is_the_mean_or_the_sum_of_its_elements(kind):
    elements = compute(kind).astype(np.float64)
    assert elements.shape == X.shape
    for reduction in ("mean", "sum"):
        value = compute(kind, reduction=reduction)
        assert value.shape == ()
        np.testing.assert_allclose(value, getattr(np, reduction)(elements), rtol=1e-6)


def test_losses_of_probabilities_and_vectors_can_be_reduced():
    for kind, feeds in {
        "log_loss": (np.full((2, 3), 0.25), np.eye(2, 3)),
        "kl_div": (np.log(np.full((2, 3), 0.25)), np.full((2, 3), 0.5)),
    }.items():
        x, y = (array.astype(np.float32) for array in feeds)
        with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
            variables = [nn.layers.data(name, shape=[None, 3]) for name in "xy"]
            layer = getattr(nn.layers, kind)
            fetch = [layer(*variables), layer(*variables, reduction="mean")]
        step = ow.Network(main.global_block()).compile(feed=["x", "y"], fetch=fetch)
        elements, mean = step(x=x, y=y)
        np.testing.assert_allclose(mean, elements.mean(), rtol=1e-6)


def test_the_error_for_an_unknown_reduction_lists_the_reductions():
    with pytest.raises(AttributeValueError, match="mse: reduction must be one of 'none', 'mean'"):
        compute("mse", reduction="average")


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("mse", {}),
        ("softmax_with_cross_entropy", {}),
        ("softmax_with_cross_entropy", {"label_smoothing": 0.1, "class_weights": [1.0, 2.0, 1.0]}),
        ("cross_entropy", {}),
        ("sigmoid_cross_entropy_with_logits", {"positive_weight": 2.0}),
    ],
)
def test_a_reduced_loss_is_one_layer_in_the_summary(kind, options):
    model = nn.Model()
    x = model.input("x", [None, 3])
    of_classes = kind in ("softmax_with_cross_entropy", "cross_entropy")
    label = model.input("y", [None, 1], "int64") if of_classes else model.input("y", [None, 3])
    getattr(model, kind)(x, label, reduction="mean", **options)
    assert [layer.name for layer in nn.summary(model).layers] == [f"{kind}_0"]
