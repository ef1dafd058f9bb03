"""Compiles and runs a C program, linked with libopwright, for bundles of float32 tensors."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import opwright as ow
import opwright_cpu

ROOT = Path(__file__).parents[2]


def find_library() -> Path:
    """Return the libopwright.so that `make venv` built."""
    built = sorted((ROOT / "core" / "build").glob("*/libopwright.so"), key=os.path.getmtime)
    assert built, "make venv builds libopwright.so"
    return built[-1]


def compile_runner(folder: Path) -> Path:
    """Compile tests/bundles/run_bundle.c into a folder; return the program."""
    library = find_library()
    command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-D_ISOC11_SOURCE"]
    command += ["-I", ow.get_include(), str(ROOT / "tests" / "bundles" / "run_bundle.c")]
    command += ["-o", str(folder / "run_bundle"), str(library), f"-Wl,-rpath,{library.parent}"]
    subprocess.run(command, check=True)
    return folder / "run_bundle"


def run_bundle(
    program: Path, bundle: Path, n: int, feeds: Sequence[Any], n_sessions: int = 1
) -> Any:
    """Run the program on a batch of n; return all results, concatenated.

    `n_sessions` sessions run concurrently.
    """
    env = {**os.environ, "OPWRIGHT_NUM_THREADS": str(ow.get_num_threads())}
    done = subprocess.run(
        [*map(str, (program, bundle, os.pathsep.join(opwright_cpu.__path__), n, n_sessions))],
        input=b"".join(feed.tobytes() for feed in feeds),
        capture_output=True,
        env=env,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return np.frombuffer(done.stdout, "float32")
