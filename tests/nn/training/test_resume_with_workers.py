"""Resumed training with worker processes is bitwise identical to uninterrupted training."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import opwright_nn as nn

FUNCTIONS = """
import numpy as np

X = np.random.default_rng(4).normal(size=(22, 5)).astype(np.float32)

def decode(number):
    return X[number] * 2, np.array([number % 3])


def augment(number, rng):
    return X[number] + rng.normal(size=5).astype(np.float32), np.array([number % 3])
"""


@pytest.fixture
def decoding(tmp_path, monkeypatch):
    """Return a module of functions that workers can import."""
    (tmp_path / "decoding_of_training.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(tmp_path)
    import decoding_of_training

    yield decoding_of_training
    del sys.modules["decoding_of_training"]


class Leave(nn.Callback):
    """Raises after a number of steps, like a crash."""

    def __init__(self, n_steps):
        self.every_steps = n_steps

    def after_steps(self, training):
        raise RuntimeError("left")


@pytest.mark.parametrize("n_steps", [1, 6, 11])
def test_resumed_training_after_a_crash_is_bitwise_identical(
    small, train, decoding, tmp_path, n_steps
):
    def run(folder, workers, *callbacks):
        loader = nn.load_batches(range(22), 4, map=decoding.augment, workers=workers, seed=5)
        model = small.make()[0]
        saver = nn.Checkpoint(folder, every_steps=2)
        train(model, loader, 3, callbacks=[*callbacks, saver], resume="latest")
        return small.variables(model)

    whole = run(tmp_path / "whole", 0)
    with pytest.raises(RuntimeError, match="left"):
        run(tmp_path / "parts", 2, Leave(n_steps))
    assert run(tmp_path / "parts", 2) == whole


def test_training_with_workers_is_bitwise_identical_to_training_with_arrays(small, train, decoding):
    samples = [decoding.decode(number) for number in range(22)]
    arrays = tuple(np.stack(column) for column in zip(*samples, strict=True))
    loaded, plain = small.make()[0], small.make()[0]
    train(loaded, nn.load_batches(range(22), 4, map=decoding.decode, workers=2, seed=5), 3)
    train(plain, nn.batches(arrays, 4, seed=5), 3)
    assert small.variables(loaded) == small.variables(plain)
