"""Code shared by test suites that need a large package in a separate environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


class _Absent(pytest.Module):
    """A test file whose required package is not installed."""

    reason = ""

    def collect(self) -> Any:
        """Skip the file."""
        pytest.skip(self.reason, allow_module_level=True)


def make_absent(parent: Any, path: Path, package: str, target: str) -> pytest.Module:
    """Return a module that skips a file and names the missing package and its make target."""
    module: _Absent = _Absent.from_parent(parent, path=path)
    module.reason = f"{package} is not installed; make {target} installs it"
    return module
