"""Training over processes on emulated GPUs matches one process, and is recorded as one graph."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from launching import EMULATED
from scripts import (
    MODEL,
    NARROW,
    PRODUCTS,
    STATES_IN_PARTS,
    STATES_OF_ANY_SIZE,
    STATES_OF_MODELS,
    TABLES,
    TABLES_AND_STATES_IN_PARTS,
    TRAINING,
)

from opwright_dist import get_engine

LONG = pytest.mark.long("the other cases run the same code with fewer processes")


@pytest.mark.parametrize("ranks", [pytest.param(1, marks=LONG), 2, pytest.param(4, marks=LONG)])
def test_training_with_several_processes_matches_one_process(run, ranks: int) -> None:
    done = run(TRAINING, ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == ranks


def test_ids_are_exchanged_over_mpi(run) -> None:
    gpu = "import os; os.environ['CUDA_VISIBLE_DEVICES'] = os.environ['OPWRIGHT_MPI_RANK']\n"
    done = run(gpu + TRAINING, 2, engine="mpi", variables={"OPWRIGHT_DIST_ENGINE": "nccl"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == 2


def test_training_with_dropout_matches_one_process(run) -> None:
    done = run(MODEL, 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == 2


def test_batch_norm_over_all_processes_supports_16_bit_gradients(run) -> None:
    done = run(NARROW, 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == 2


@pytest.mark.parametrize(
    ("script", "ranks"),
    [
        pytest.param(STATES_OF_ANY_SIZE, 4, marks=LONG),
        (STATES_IN_PARTS + STATES_OF_MODELS, 2),
        pytest.param(STATES_IN_PARTS + STATES_OF_MODELS, 4, marks=LONG),
    ],
    ids=["sizes of 4", "models of 2", "models of 4"],
)
def test_sharded_states_are_bitwise_identical_to_unsharded_states(
    run, script: str, ranks: int
) -> None:
    done = run(script, ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == ranks


@pytest.mark.parametrize(
    ("script", "ranks"),
    [
        pytest.param(TABLES, 2, marks=LONG),
        pytest.param(TABLES, 4, marks=LONG),
        (TABLES_AND_STATES_IN_PARTS, 2),
        (PRODUCTS, 4),
    ],
    ids=["table of 2", "table of 4", "table and states in parts of 2", "products of 4"],
)
def test_training_of_sharded_layers_matches_one_process(run, script: str, ranks: int) -> None:
    done = run(script, ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == ranks


def test_a_rendezvous_connects_the_processes_of_another_launcher(
    emulated_library: str, tmp_path: Path
) -> None:
    path = tmp_path / "script.py"
    path.write_text(EMULATED + TRAINING)
    rendezvous = get_engine("nccl").open_rendezvous([0, 0], "127.0.0.1")
    try:
        processes = []
        for rank in range(2):
            variables = {
                **rendezvous.environment(rank),
                "OPWRIGHT_DIST_ENGINE": "nccl",
                "OPWRIGHT_NCCL_LIBRARY": emulated_library,
                "CUDA_VISIBLE_DEVICES": str(rank),
            }
            command = [sys.executable, str(path)]
            process = subprocess.Popen(
                command, env=os.environ | variables, stdout=subprocess.PIPE, text=True
            )
            processes.append(process)
        outputs = [process.communicate(timeout=200)[0] for process in processes]
    finally:
        rendezvous.close()
    assert outputs == ["good\n", "good\n"]
