"""Kills training with `nn.train` at any moment, resumes it, and compares results bitwise.

Training uses Adam, dropout, shuffling, a schedule, accumulation and early stopping; checkpoints
are saved within epochs and between two updates. ``python tests/nn/training/kill_campaign.py --kills
300`` prints a line of counts; its exit status is 1 after a finding.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "model"))

from resume_campaign import STEP_PAUSE_S, Arrays, main

import opwright_nn as nn
from opwright_nn.training.history import TIMES

EPOCHS = 6


class Slow(nn.Callback):
    """Pauses after each step, and writes a byte: "r" if training was resumed."""

    every_steps = 1

    def __init__(self, started: int | None) -> None:
        self._started = started
        self._word = b""

    def after_steps(self, training: nn.Training) -> None:
        if self._started is None:
            return
        self._word = self._word or (b"b" if training.n_steps == 1 else b"r")
        os.write(self._started, self._word)
        time.sleep(STEP_PAUSE_S)


def make_model() -> tuple[nn.Model, Any]:
    """Return a model with dropout, and its scores."""
    model = nn.Model()
    hidden = model.dropout(model.fc_layer("img", size=16, activation="relu"), 0.3)
    scores = model.fc_layer(hidden, size=10)
    model.backward(model.mean(model.softmax_with_cross_entropy(scores, "label")))
    adam = nn.optimizer.Adam(nn.schedule.cosine(0.02, steps=20, warmup=3))
    model.optimize(nn.optimizer.Accumulate(adam, steps=3))
    model.initialize_parameters(seed=7)
    return model, scores


def train(folder: Path, started: int | None = None) -> Arrays:
    """Train; return the persistable variables and the columns of the history."""
    model, scores = make_model()
    data, test = nn.datasets.digits.load(seed=1)
    history = nn.train(
        model,
        (data.images[:300], data.labels[:300]),
        EPOCHS,
        batch_size=32,
        validation=test,
        metrics={"accuracy": nn.metrics.Accuracy(scores, "label")},
        callbacks=[
            nn.Checkpoint(folder, every_steps=4, best="accuracy"),
            nn.EarlyStopping("accuracy", patience=4),
            Slow(started),
        ],
        resume="latest",
        seed=3,
        progress=False,
    )
    variables = [var for var in model.program.global_block().vars.values() if var.persistable]
    arrays = {var.name: model.scope.var(var.name).numpy() for var in variables}
    columns = [name for name in history.columns if name not in TIMES]
    return arrays | {f"history of {name}": np.array(history[name]) for name in columns}


if __name__ == "__main__":
    sys.exit(main(train, __doc__))
