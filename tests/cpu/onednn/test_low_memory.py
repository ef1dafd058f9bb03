"""A failed allocation fails one call; the next call works as before.

Each scenario runs in a separate process, with a preloaded library that makes one allocation fail.
By default, the tests use a sample of the allocations; OPWRIGHT_EVERY_ALLOCATION=1 tests all.
If a small allocation fails, oneDNN writes through the null pointer. opwright therefore calls oneDNN
only if enough memory is free; in these tests, such a crash is identified by a stack that ends in
oneDNN.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from every_case import EVERY
from starving import build_native, build_python, libraries_of

HERE = Path(__file__).parent / "starving"
EVERY_ALLOCATION = os.environ.get("OPWRIGHT_EVERY_ALLOCATION") == "1"
SAMPLE = 40 if EVERY else 12
"""The number of failed allocations in each scenario."""

KERNELS = {"opwright_cpu": 0}
CODE = {"libdnnl": 65536}
"""Allocations for code that oneDNN compiles; oneDNN used to cache their failure forever."""
SMALL = {"libdnnl": 0}
RUNTIME = {"_runtime": 0}
ALL = {"libdnnl": 0, "opwright_cpu": 0, "_runtime": 0}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_native(tmp_path_factory.mktemp("starving"))


def starve(
    library: Path, name: str, least: dict[str, int], step: int, folder: Path, *stacks: str
) -> dict[str, Any]:
    """Run a scenario in which each of these allocations fails in turn; return the outcome."""
    progress = folder / "progress"
    child = subprocess.run(
        [sys.executable, HERE / "child.py", name, json.dumps(least), str(step), progress, *stacks],
        env={**os.environ, "LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        check=False,
    )
    reached = progress.read_text().strip() if progress.exists() else "none"
    assert child.returncode == 0, f"at allocation {reached} of {name}: {child.stderr[-3000:]}"
    report: dict[str, Any] = json.loads(child.stdout.splitlines()[-1])
    return report


@pytest.mark.parametrize(
    ("name", "least"),
    [("lower", KERNELS), ("lower", CODE), ("lower", RUNTIME), ("product", KERNELS), ("run", ALL)],
    ids=["lower-kernels", "lower-code", "lower-runtime", "product-kernels", "run-all"],
)
def test_a_call_after_a_failed_allocation_succeeds(
    name: str, least: dict[str, int], library: Path, tmp_path: Path
) -> None:
    total = starve(library, name, least, 10**9, tmp_path)["total"]
    assert total > 0
    step = 1 if EVERY_ALLOCATION else max(1, total // SAMPLE)
    report = starve(library, name, least, step, tmp_path)
    assert report["faults"] == []
    assert report["tried"] >= min(SAMPLE, total)
    assert report.get("named", 0) + report.get("bare", 0) > 0


@pytest.mark.timeout(1800 if EVERY_ALLOCATION else 900)
@pytest.mark.parametrize("name", ["product", "lower"])
def test_only_onednn_crashes_if_a_small_allocation_fails(
    name: str, library: Path, tmp_path: Path
) -> None:
    stacks = str(build_python(tmp_path))
    total = starve(library, name, SMALL, 10**9, tmp_path, stacks)["total"]
    step = 1 if EVERY_ALLOCATION else max(1, total // SAMPLE)
    report = starve(library, name, SMALL, step, tmp_path, stacks)
    print({word: count for word, count in report.items() if isinstance(count, int)})
    assert report["faults"] == []
    for number, stack in report["crashes"]:
        assert libraries_of(stack)[0].startswith("libdnnl"), f"allocation {number}: {stack}"
    assert report["tried"] - len(report["crashes"]) > report["tried"] // 2
