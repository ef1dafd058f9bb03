"""Code blocks on pages about ONNX print the output shown there, and the tables are current."""

from __future__ import annotations

from pathlib import Path

import pytest
from defaults_table import TABLE
from defaults_table import render as render_defaults
from onnx_page import BEGIN, PAGE, render

from pages import check_python, needs

PAGES = [page for page in sorted(PAGE.parent.glob("*.md")) if needs(page, "onnx")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_print_the_output_on_the_page(page: Path, tmp_path: Path) -> None:
    check_python(page, tmp_path)


def test_the_table_of_operators_is_current() -> None:
    written = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2]
    assert written == render(), "python tests/onnx/onnx_page.py writes it"


def test_the_table_of_defaults_is_current() -> None:
    written = TABLE.read_text(encoding="utf-8")
    assert written == render_defaults(), "python tests/onnx/defaults_table.py writes it"
