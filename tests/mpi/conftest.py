"""Provides functions that run scripts in several processes connected by the MPI in the wheel."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

Command = Callable[..., list[str]]
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def command() -> Command:
    """Return a function that runs ``opwright-mpi run -n RANKS`` with the given arguments."""
    code = "import sys; from opwright_mpi.launcher import main; sys.exit(main())"

    def make_command(ranks: int, *words: object) -> list[str]:
        return [sys.executable, "-c", code, "run", "-n", str(ranks), *map(str, words)]

    return make_command


@pytest.fixture
def run(tmp_path: Path, command: Command) -> Run:
    """Return a function that runs a script in several processes, with a deadline in seconds."""

    def run_script(
        script: str, ranks: int, deadline: float = 60.0, arguments: Sequence[object] = ()
    ) -> subprocess.CompletedProcess[str]:
        path = tmp_path / "script.py"
        path.write_text(script)
        environment = os.environ | {"OPWRIGHT_DIST_DEADLINE": str(deadline)}
        return subprocess.run(
            command(ranks, path, *arguments),
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    return run_script
