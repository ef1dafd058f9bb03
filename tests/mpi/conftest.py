"""Scripts that several processes run, connected by the MPI of the wheel."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return a function that runs a script in some processes, with a deadline of seconds."""

    def run_script(
        script: str, ranks: int, deadline: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        path = tmp_path / "script.py"
        path.write_text(script)
        code = "import sys; from opwright_mpi.launcher import main; sys.exit(main())"
        command = [sys.executable, "-c", code, "run", "-n", str(ranks), str(path)]
        environment = os.environ | {"OPWRIGHT_DIST_DEADLINE": str(deadline)}
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=300
        )

    return run_script
