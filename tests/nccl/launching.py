"""Starts scripts in several processes through a launcher."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

EMULATED = f"""
import sys
sys.path.insert(0, {str(HERE)!r})
import emulated_nccl
emulated = emulated_nccl.start()
"""

LAUNCH = "import sys; from opwright_{engine}.launcher import main; sys.exit(main())"


def run_script(
    path: Path, engine: str, ranks: int, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a script in several processes started by a launcher."""
    command = [sys.executable, "-c", LAUNCH.format(engine=engine), "run", "-n", str(ranks)]
    return subprocess.run(
        [*command, str(path)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def run_python(script: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a script on an emulated GPU in one process without a launcher."""
    return subprocess.run(
        [sys.executable, "-c", EMULATED + script],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
