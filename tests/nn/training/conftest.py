"""Fixtures for the training tests: a small classifier with dropout."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import opwright_nn as nn

RNG = np.random.default_rng(4)
X = RNG.normal(size=(22, 5)).astype(np.float32)
Y = RNG.integers(0, 3, (22, 1))


def make_model(optimizer=None, drop=0.3, width=6, seed=2):
    """Return a model with dropout, its scores and its loss."""
    model = nn.Model()
    hidden = model.fc_layer("x", size=width, activation="relu")
    if drop:
        hidden = model.dropout(hidden, drop)
    scores = model.fc_layer(hidden, size=3)
    loss = model.mean(model.softmax_with_cross_entropy(scores, "y"))
    model.backward(loss)
    model.optimize(optimizer or nn.optimizer.Adam(0.05))
    model.initialize_parameters(seed=seed)
    return model, scores, loss


def variables(model):
    """Return the bytes of all persistable variables."""
    found = [var for var in model.program.global_block().vars.values() if var.persistable]
    return {var.name: model.scope.var(var.name).numpy().tobytes() for var in found}


@pytest.fixture
def small():
    """The data, and functions that create and read the classifier."""
    return SimpleNamespace(x=X, y=Y, data=(X, Y), make=make_model, variables=variables)


@pytest.fixture
def train():
    """`nn.train` without progress output on standard error."""

    def quiet(*args, **options):
        return nn.train(*args, **{"progress": False, **options})

    return quiet
