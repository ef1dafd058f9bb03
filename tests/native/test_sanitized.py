"""Builds the native tests of the runtime with sanitizers and runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "run_sanitized.sh"


@pytest.mark.long("it compiles the runtime three times")
@pytest.mark.timeout(1200)
def test_sanitizers_do_not_report_errors_in_the_runtime(
    tmp_path: Path,
) -> None:
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", str(SCRIPT), str(tmp_path)],
        env={**os.environ, "PATH": tools},
        capture_output=True,
        text=True,
        check=False,
        timeout=1100,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
