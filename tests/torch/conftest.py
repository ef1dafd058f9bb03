"""The tests of opwright-torch: none is collected where PyTorch is not installed."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("torch") is not None:
    sys.path.insert(0, str(Path(__file__).parent / "translate"))


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect one skipped test of a file where PyTorch is not installed."""
    if find_spec("torch") is None and file_path.match("test_*.py"):
        return _Skipped.from_parent(parent, path=file_path)
    return None


class _Skipped(pytest.File):
    def collect(self) -> list[pytest.Item]:
        pytest.skip("PyTorch is not installed: make test-torch", allow_module_level=True)
        return []
