"""The scripts in examples/second_week run as a user would run them, and learn."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "second_week"
RESULTS = {
    "float64_regression": (r"error: ([\d.]+)", 0.0, 0.2),
    "image_folder": (r"epochs: 6 accuracy: ([\d.]+)", 0.85, 1.0),
    "own_dataset": (r"accuracy: ([\d.]+)", 0.95, 1.0),
    "table": (r"accuracy: ([\d.]+)\nreturned: \['yes', 'no'\]", 0.85, 1.0),
}
"""A pattern for the output of each script, and the limits of its first group."""


def test_every_script_is_run() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == RESULTS.keys()


@pytest.mark.parametrize("name", RESULTS)
def test_a_script_runs_and_learns(name: str, tmp_path: Path) -> None:
    if name == "image_folder":
        pytest.importorskip("PIL")
    done = subprocess.run(
        [sys.executable, FOLDER / f"{name}.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONWARNINGS": "error"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    pattern, low, high = RESULTS[name]
    match = re.search(pattern, done.stdout)
    assert match, done.stdout
    assert low <= float(match[1]) <= high, done.stdout
