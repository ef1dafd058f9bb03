"""The blocks of pages about JAX print the output shown there."""

from __future__ import annotations

from pathlib import Path

import pytest

from pages import check_python, needs

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [page for page in sorted(DOCS.glob("*.md")) if needs(page, "jax")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_print_the_output_on_the_page(page: Path, tmp_path: Path) -> None:
    check_python(page, tmp_path)
