"""Lets the files of this folder import each other and the operator table."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
for folder in (HERE, HERE.parent, HERE.parent / "operators"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


@pytest.fixture(scope="session")
def emulator_folder() -> Path:
    """Return where compiled kernels are kept, those of other test files among them."""
    return Path(os.environ["OPWRIGHT_EMULATOR_DIR"])
