"""Fixtures for the ONNX tests, which are skipped if onnx is not installed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from suites_apart import make_absent

HAS_ONNX = importlib.util.find_spec("onnx") is not None
if HAS_ONNX:
    sys.path.insert(0, str(Path(__file__).parent))


def pytest_pycollect_makemodule(module_path: Path, parent: Any) -> pytest.Module | None:
    """Return a mark that skips a file if onnx is not installed."""
    return None if HAS_ONNX else make_absent(parent, module_path, "onnx", "test-onnx")
