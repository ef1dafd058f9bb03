"""The single-operator benchmark compares equal work, and writes the file for the site."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "operator_times.py"


def test_the_script_compares_times_with_peers_and_names_the_opwright_kernel(tmp_path: Path) -> None:
    python = os.environ.get("OPWRIGHT_TEST_PEERS")
    if python is None:
        pytest.skip("no peers: run make test-peers")
    words = ["softmax", "--rounds", "1", "--seconds", "0.001", "--output", str(tmp_path / "t")]
    command = [sys.executable, str(SCRIPT), *words, "--peers", python]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    measured = json.loads((tmp_path / "t").read_text())
    (found,) = measured["operators"].values()
    assert found["kernel"].startswith("native of opwright-cpu")
    assert {row["size"] for row in found["times"]} == {1_000, 100_000, 10_000_000}
    assert {row["gradient"] for row in found["times"]} == {False, True}
    assert all(row["opwright_s"] > 0 and row["torch_s"] > 0 for row in found["times"])
    assert measured["torch"].startswith("2.")
