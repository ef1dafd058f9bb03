"""Runs the scripts on real GPUs with NVIDIA's NCCL; on_gpus.py runs them without pytest."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from launching import run_script
from scripts import (
    ALONE,
    EXACT,
    MODEL,
    MOVEMENTS,
    PRODUCTS,
    REDUCTIONS,
    ROWS,
    SHARDS,
    STATES_IN_PARTS,
    STATES_OF_MODELS,
    TABLES,
    TRAINING,
    VALUES,
)

pytestmark = pytest.mark.cuda


def count_gpus() -> int:
    if shutil.which("nvidia-smi") is None:
        return 0
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    return listed.stdout.count("GPU ")


two_gpus = pytest.mark.skipif(count_gpus() < 2, reason="needs two NVIDIA GPUs")


def check(tmp_path: Path, script: str, ranks: int) -> None:
    path = tmp_path / "script.py"
    path.write_text(script)
    done = run_script(path, "nccl", ranks, {})
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == ranks


def test_a_single_process_connects_to_itself(tmp_path: Path) -> None:
    check(tmp_path, ALONE, 1)


@two_gpus
@pytest.mark.parametrize("script", [REDUCTIONS, EXACT, MOVEMENTS, SHARDS, ROWS])
def test_collectives_match_numpy(tmp_path: Path, script: str) -> None:
    check(tmp_path, VALUES + script, 2)


@two_gpus
@pytest.mark.parametrize(
    "script", [TRAINING, MODEL, STATES_IN_PARTS + STATES_OF_MODELS, TABLES, PRODUCTS]
)
def test_training_matches_one_process(tmp_path: Path, script: str) -> None:
    check(tmp_path, script, 2)
