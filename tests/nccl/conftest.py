"""Provides functions that run scripts in several processes connected by emulated or real NCCL."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the modules in this folder

from launching import EMULATED, run_script

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def emulated_library(emulator_folder: Path) -> str:
    """Return the path of the emulated NCCL, after compiling the kernels of collectives."""
    code = EMULATED + "import os; print(os.environ['OPWRIGHT_NCCL_LIBRARY'])"
    environment = os.environ | {"OPWRIGHT_EMULATOR_DIR": str(emulator_folder)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def run(tmp_path: Path, emulated_library: str) -> Run:
    """Return a function that runs a script on emulated GPUs, with a deadline in seconds."""

    def run_emulated(
        script: str,
        ranks: int,
        deadline: float = 60.0,
        engine: str = "nccl",
        variables: dict[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        path = tmp_path / "script.py"
        path.write_text(EMULATED + script)
        environment = {
            "OPWRIGHT_DIST_DEADLINE": str(deadline),
            "OPWRIGHT_NCCL_LIBRARY": emulated_library,
            **(variables or {}),
        }
        return run_script(path, engine, ranks, environment)

    return run_emulated
