"""Tests that training on digits gives the same losses as the host, with and without a fallback."""

from __future__ import annotations

import numpy as np
import pytest

import opwright_nn as nn
from opwright.errors import KernelNotFoundError

STEPS = 12


@pytest.fixture(scope="module")
def digits():
    return nn.datasets.digits.load(seed=1)


def _train(digits, activation="sigmoid", optimizer="sgd", **where):
    """Train for a few steps; return the losses, the probabilities of some images, and the model."""
    train, test = digits
    model = nn.Model(**where)
    hidden = model.fc_layer(input="img", size=100, activation=activation)
    prob = model.fc_layer(input=hidden, size=10, activation="softmax")
    model.backward(model.mean(input=model.cross_entropy(input=prob, label="label")))
    model.optimize(optimizer, learning_rate=0.1)
    model.initialize_parameters(seed=1, img=train.images)
    losses = []
    for images, labels in list(nn.batches(train, size=64, seed=1))[:STEPS]:
        model.fill("img", images)
        model.fill("label", labels)
        losses.append(float(model.run()[0]))
    return losses, model.predict(prob, img=test.images[:50]), model


@pytest.mark.parametrize("activation", ["sigmoid", "relu"])
def test_a_perceptron_trains_without_fallback_to_the_host(digits, activation):
    wanted, probabilities, _ = _train(digits, activation)
    losses, got, model = _train(digits, activation, device="opencl")
    np.testing.assert_allclose(losses, wanted, rtol=2e-5)
    np.testing.assert_allclose(got, probabilities, rtol=1e-3, atol=1e-5)
    assert losses[-1] < losses[0]
    assert set(model.network.placement().kernels) == {"opencl/opencl"}


def test_the_host_runs_operators_without_a_kernel_if_a_fallback_is_allowed(digits):
    wanted, _, _ = _train(digits, "relu", "adam")
    losses, _, model = _train(digits, "relu", "adam", device="opencl", fallback="cpu")
    np.testing.assert_allclose(losses, wanted, rtol=1e-4)
    placement = model.network.placement()
    assert placement.types["adam"] == 4
    assert placement.kernels["opencl/opencl"] > 10
    assert placement.bytes_moved > 0


def test_without_a_fallback_the_error_names_the_kernel_and_the_fix(digits):
    text = r'(?s)adam\[opencl, float32\]: no kernel.*available: adam\[cpu.*give fallback="cpu"'
    with pytest.raises(KernelNotFoundError, match=text):
        _train(digits, "relu", "adam", device="opencl")
