"""A failed allocation makes one call of save or load fail, but does not damage saved or set values.

Single allocations fail, each in a separate process. The tests use a sample of all allocations, or
every allocation with OPWRIGHT_EVERY_ALLOCATION=1. The protobuf extension dereferences the NULL that
the Python allocator returns; opwright cannot prevent this. A crash of protobuf is recognized by a
stack without opwright libraries, and it happens before any file is written or variable is set.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from every_case import EVERY
from starving import build_native, build_python, libraries_of

PROCESS = Path(__file__).parent / "starved_process.py"
EVERY_ALLOCATION = os.environ.get("OPWRIGHT_EVERY_ALLOCATION") == "1"
SAMPLE = 40 if EVERY else 12
"""The approximate number of Python allocations that the tests make fail in a save and a load."""

STEPS = {"save": 2500 // SAMPLE, "load": 1700 // SAMPLE}
MOST_OPEN = 2
"""If CPython 3.11 cannot call ``__exit__`` of a with block, it leaks the context manager."""

_OURS = re.compile(r"^(_runtime\.|libopwright|_?opwright)")


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("starving")
    build_native(folder)
    build_python(folder)
    return folder


def starve(folder: Path, *arguments: str, preload: Path | None = None) -> dict[str, Any]:
    """Run starved_process.py and return its report."""
    child = subprocess.run(
        [sys.executable, PROCESS, *arguments[:3], folder / "saved", *arguments[3:]],
        env={**os.environ, **({"LD_PRELOAD": str(preload)} if preload else {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr[-3000:]
    report: dict[str, Any] = json.loads(child.stdout.splitlines()[-1])
    print(report["total"], {word: len(report[word]) for word in report if word != "total"})
    return report


@pytest.mark.parametrize("name", ["save", "load"])
def test_a_failed_native_allocation_raises_a_memory_error(
    name: str, libraries: Path, tmp_path: Path
) -> None:
    library = libraries / "native_allocations.so"
    report = starve(tmp_path, "", name, "1", "_runtime", preload=library)
    assert report["fault"] == report["misnamed"] == report["named"] == report["done"] == []
    assert report["crash"] == report["open"] == []
    assert len(report["memory"]) == report["total"] > 0


@pytest.mark.timeout(3600 if EVERY_ALLOCATION else 900)
@pytest.mark.parametrize("name", ["save", "load"])
def test_a_failed_python_allocation_leaves_a_complete_model(
    name: str, libraries: Path, tmp_path: Path
) -> None:
    step = 1 if EVERY_ALLOCATION else STEPS[name]
    report = starve(tmp_path, str(libraries / "python_allocations.so"), name, str(step))
    assert report["fault"] == []
    for number, stack in report["crash"]:
        names = libraries_of(stack)
        assert names, f"allocation {number}: {stack}"
        assert not any(map(_OURS.match, names)), f"allocation {number}: {stack}"
    assert len(report["open"]) <= MOST_OPEN
    assert len(report["memory"]) > len(report["crash"]) + len(report["misnamed"])
