"""docs/determinism.md lists the declarations of the kernels."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from determinism_page import PAGE, render


def test_the_lists_on_the_page_are_up_to_date() -> None:
    assert PAGE.read_text() == render(), "python tests/cpu/determinism_page.py writes them"
