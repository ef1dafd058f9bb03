"""Signal handlers run on the stack of their thread during any oneDNN computation.

A handler that runs elsewhere overwrites the heap, so each case runs in a separate process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "signals"


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("signals") / "places.so"
    options = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    subprocess.run(["gcc", *options, HERE / "places.c", "-o", path], check=True)
    return path


@pytest.mark.parametrize("isa", ["AVX2", "AVX512_CORE"])
@pytest.mark.parametrize("case", ["plain_product", "turned_product", "convolution_gradient"])
def test_signal_handlers_run_on_the_stack_of_their_thread(places, case, isa):
    child = subprocess.run(
        [sys.executable, HERE / "child.py", places, case],
        env={**os.environ, "ONEDNN_MAX_CPU_ISA": isa},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (child.returncode, child.stdout) == (0, "0\n"), child.stderr[-3000:]
