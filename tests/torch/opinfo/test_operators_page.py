"""docs/pytorch_operators.md is current."""

from __future__ import annotations

import pytest
from operators_page import PAGE, render, try_all

from every_case import EVERY


@pytest.mark.skipif(not EVERY, reason="runs all operators: OPWRIGHT_EVERY_CASE=1")
def test_the_page_lists_the_operators_that_run_in_plans() -> None:
    written = "python tests/torch/opinfo/operators_page.py writes them"
    assert PAGE.read_text() == render(try_all()), written
