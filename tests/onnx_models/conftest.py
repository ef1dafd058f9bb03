"""What tests of ONNX models share; where onnx is not installed they are skipped."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

HAS_ONNX = importlib.util.find_spec("onnx") is not None
if HAS_ONNX:
    sys.path.insert(0, str(Path(__file__).parent))


class Absent(pytest.Module):
    """A file of tests that needs onnx."""

    def collect(self) -> Any:
        """Skip the file."""
        pytest.skip("onnx is not installed; make test-onnx installs it", allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: Any) -> pytest.Module | None:
    """Return what skips a file where onnx is not installed."""
    return None if HAS_ONNX else Absent.from_parent(parent, path=module_path)
