"""A process exits normally, whatever its threads are doing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROCESS = Path(__file__).parent / "exit_process.py"

CODES = {"itself": 0, "exit": 0, "error": 1, "interrupt": -signal.SIGINT}

WORK = (
    "compiled",
    "eager",
    "python_kernels",
    "running",
    "lowering",
    "profiling",
    "saving",
    "executor",
)

REPEAT = -(-int(os.environ.get("OPWRIGHT_EXITS", "1")) // (len(WORK) * len(CODES)))
"""How often each test is repeated; OPWRIGHT_EXITS sets the total number of processes."""


@pytest.mark.parametrize("work", WORK)
def test_a_process_can_exit_while_threads_are_working(work: str, tmp_path: Path) -> None:
    # OpenBLAS, which NumPy calls, can wait forever for its own threads if a process exits during a
    # matrix product; this also happened in two of four processes that used only NumPy.
    environ = {**os.environ, "EXIT_FOLDER": str(tmp_path), "OPENBLAS_NUM_THREADS": "1"}
    for _ in range(REPEAT):
        started = {  # concurrently, so threads are interrupted in the middle
            end: subprocess.Popen(
                [sys.executable, "-X", "faulthandler", PROCESS, work, end],
                env=environ,
                stderr=subprocess.PIPE,
                text=True,
            )
            for end in CODES
        }
        said = {end: process.communicate(timeout=600)[1] for end, process in started.items()}
        codes = {end: process.returncode for end, process in started.items()}
        assert codes == CODES, said
