"""Kills training at any moment and resumes it.

The result must be bitwise identical to the result of uninterrupted training.

``python tests/nn/model/resume_campaign.py --kills 300`` prints a line of counts; its exit status is
1 after a finding. The tests run it with a few kills; ``OPWRIGHT_RESUME_KILLS`` sets their number.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import opwright_nn as nn

EPOCHS = 6
SAVE_EVERY = 3
STEP_PAUSE_S = 0.004
"""The pause after each step, so that a kill occurs in the intended step or soon after it."""
MOST_STEPS = 12
"""The maximum number of steps before a kill. A time limit would not suit slow machines."""

Arrays = dict[str, np.ndarray[Any, Any]]
Train = Callable[..., Arrays]
"""Trains into a folder, and writes a byte to a file after each step; see `train`."""


class Outcome(NamedTuple):
    """The counts and the findings of a campaign."""

    kills: int
    resumed: int
    trainings: int
    findings: list[str]


def train(folder: Path, started: int | None = None) -> Arrays:
    """Train with dropout, Adam and a falling learning rate; return all persistable variables.

    Parameters
    ----------
    folder : Path
        The folder to which every third step is saved.
    started : int, optional
        Gets a byte after each step: "r" if training was resumed.
    """
    model = nn.Model()
    hidden = model.fc_layer("img", size=16, activation="relu")
    hidden = model.dropout(hidden, 0.3)
    prob = model.fc_layer(hidden, size=10, activation="softmax")
    model.backward(model.mean(model.cross_entropy(prob, "label")))
    optimizer = model.adam(learning_rate=0.01)
    data, _ = nn.datasets.digits.load(seed=1)
    batches = nn.batches((data.images[:300], data.labels[:300]), size=32, epochs=EPOCHS, seed=3)
    word = b"r"
    if not model.resume(folder, batches, missing_ok=True):
        model.initialize_parameters(seed=7)
        word = b"b"
    for images, labels in batches:
        model.fill("img", images)
        model.fill("label", labels)
        model.run()
        batch = batches.position["batch"]
        if batch % 4 == 0:
            rate = float(model.scope.var(optimizer.learning_rate.name).numpy()[0])
            model.set_learning_rate(rate * 0.97)
        if batch % SAVE_EVERY == 0:
            model.save(folder, batches)
        if started is not None:
            os.write(started, word)
            time.sleep(STEP_PAUSE_S)
    variables = [var for var in model.program.global_block().vars.values() if var.persistable]
    return {var.name: model.scope.var(var.name).numpy() for var in variables}


class Life(NamedTuple):
    """How one process of a training run ended."""

    killed: bool
    resumed: bool


def live(train: Train, folder: Path, result: Path, steps: int | None, pause_s: float) -> Life:
    """Train in a separate process, and kill it some time after the given number of steps."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            np.savez(result, **train(folder, writing))
            os._exit(0)
        except BaseException:  # noqa: BLE001  # printed before the process exits
            traceback.print_exc()
            os._exit(1)
    os.close(writing)
    word, n_steps = os.read(reading, 1), 1  # empty if the process exited
    while n_steps != steps and os.read(reading, 1):
        n_steps += 1
    if n_steps == steps:
        time.sleep(pause_s)
        os.kill(pid, signal.SIGKILL)
    os.close(reading)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status not in (0, -signal.SIGKILL):
        raise RuntimeError(f"a training process exited with status {status}")
    return Life(status != 0, word == b"r")


def run_campaign(folder: Path, kills: int, seed: int = 0, train: Train = train) -> Outcome:
    """Kill training runs `kills` times; compare each one bitwise with uninterrupted training."""
    expected = train(folder / "whole")
    moments = random.Random(seed)
    done = resumed = trainings = 0
    findings: list[str] = []
    while done < kills and not findings:
        trainings += 1
        model, result = folder / f"model_{trainings}", folder / f"{trainings}.npz"
        life = Life(killed=True, resumed=False)
        while life.killed:
            steps, pause_s = moments.randint(1, MOST_STEPS), moments.uniform(0.0, 2 * STEP_PAUSE_S)
            life = live(train, model, result, steps if done < kills else None, pause_s)
            done += life.killed
            resumed += life.resumed
        findings += [f"training {trainings}: {name}" for name in differing(result, expected)]
    return Outcome(done, resumed, trainings, findings)


def differing(result: Path, expected: Arrays) -> list[str]:
    """Return the names of the arrays that are not bitwise identical to the expected arrays."""
    with np.load(result) as arrays:
        if set(arrays.files) != set(expected):
            return [f"holds {sorted(arrays.files)}"]
        return [name for name in expected if arrays[name].tobytes() != expected[name].tobytes()]


def main(train: Train = train, about: str | None = __doc__) -> int:
    """Run the campaign that the command line describes."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcome = run_campaign(Path(folder), args.kills, args.seed, train)
    for finding in outcome.findings:
        print(f"{finding} differs")
    print(
        f"{outcome.kills} kills, {outcome.resumed} resumed processes, "
        f"{outcome.trainings} trainings to their end"
    )
    return 1 if outcome.findings or not outcome.resumed else 0


if __name__ == "__main__":
    sys.exit(main())
