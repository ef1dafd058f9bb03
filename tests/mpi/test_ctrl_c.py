"""After Ctrl-C during training, all processes stop after the same step and save a checkpoint."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

TRAINING = """
import os
import sys
import time
from pathlib import Path

import numpy as np

import opwright_dist as dist
import opwright_nn as nn

ROWS = np.random.default_rng(0).normal(size=(60, 6)).astype(np.float32)
DATA = {"x": ROWS, "y": ROWS.sum(axis=1, keepdims=True)}


class Slow(nn.Callback):
    every_steps = 5

    def after_steps(self, training):
        if training.n_steps == 5:
            print("pid", os.getpid(), flush=True)
        time.sleep(0.05)


folder, slow = Path(sys.argv[1]), sys.argv[2:] == ["slow"]
model = nn.Model(data_parallel=True)
hidden = model.dropout(model.tanh(model.fc_layer("x", 16)), 0.3)
error = model.fc_layer(hidden, 1) - model.input("y")
model.minimize(model.mean(error * error), nn.optimizer.Adam(0.01))
history = nn.train(
    model, DATA, epochs=40, batch_size=6, seed=2, resume="latest", progress=False,
    callbacks=[nn.Checkpoint(folder / "states"), *([Slow()] if slow else [])],
)
values = [model.scope.var(p.name).numpy() for p in model.parameters]
assert len(set(dist.gather(b"".join(value.tobytes() for value in values)))) == 1
if dist.rank() == 0:
    np.savez(folder / "values.npz", *values)
print("stopped:", history.stop_reason, flush=True)
"""


def train_to_the_end(command: list[str], folder: Path) -> dict[str, np.ndarray]:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[0] stopped: finished", "[1] stopped: finished"]
    return dict(np.load(folder / "values.npz"))


@pytest.mark.grid(8)
@pytest.mark.parametrize("to", ["the launcher", "one of two"])
def test_ctrl_c_stops_all_processes_after_the_same_step_and_training_can_be_resumed(
    tmp_path: Path, command, to: str
) -> None:
    script = tmp_path / "script.py"
    script.write_text(TRAINING)
    stopped, whole = tmp_path / "stopped", tmp_path / "whole"
    for folder in (stopped, whole):
        folder.mkdir()
    with subprocess.Popen(
        command(2, script, stopped, "slow"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        pids = [int(line.split()[2]) for line in lines]
        os.kill(process.pid if to == "the launcher" else pids[1], signal.SIGINT)
        output, errors = process.communicate(timeout=300)
    assert process.returncode == (130 if to == "the launcher" else 0), errors
    assert sorted(output.splitlines()) == ["[0] stopped: interrupted", "[1] stopped: interrupted"]
    assert errors.count("opwright-mpi: terminated by SIGINT") == (to == "the launcher")
    rest = train_to_the_end(command(2, script, stopped), stopped)
    wanted = train_to_the_end(command(2, script, whole), whole)
    for name, value in wanted.items():
        np.testing.assert_array_equal(rest[name], value)


def test_a_script_that_exits_normally_after_ctrl_c_counts_as_interrupted(
    tmp_path: Path, command
) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import time\n"
        "try:\n    print('begun', flush=True)\n    time.sleep(1000)\n"
        "except KeyboardInterrupt:\n    print('saved')\n"
    )
    with subprocess.Popen(
        command(2, script), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for _ in range(2):
            process.stdout.readline()
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert sorted(output.splitlines()) == ["[0] saved", "[1] saved"]
    assert errors == "opwright-mpi: terminated by SIGINT\n"


def test_a_second_ctrl_c_terminates_all_processes(tmp_path: Path, command) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import signal, time\n"
        "signal.signal(signal.SIGINT, lambda *_: print('once', flush=True) or "
        "signal.signal(signal.SIGINT, signal.default_int_handler))\n"
        "print('begun', flush=True)\n"
        "while True:\n    time.sleep(0.01)\n"
    )
    with subprocess.Popen(
        command(2, script), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for word in ("begun", "once"):
            assert [process.stdout.readline().split()[1] for _ in range(2)] == [word, word]
            process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "opwright-mpi: terminated by SIGINT" in errors
