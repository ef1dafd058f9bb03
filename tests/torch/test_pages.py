"""The code blocks on pages about PyTorch print the output shown there."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from pages import check_python, needs

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [page for page in sorted(DOCS.glob("*.md")) if needs(page, "torch")]
LOADED = "import sys; sys.path.append({!r}); import model_zoo; model_zoo.load_torchvision()"
"""timm and transformers import torchvision, whose operators some machines cannot load."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_print_the_output_on_the_page(page: Path, tmp_path: Path) -> None:
    models = [name for name in ("timm", "transformers") if needs(page, name)]
    absent = [name for name in models if find_spec(name) is None]
    if absent:
        pytest.skip(f"the page uses {' and '.join(absent)}; make test-torch installs them")
    before = LOADED.format(str(Path(__file__).parent / "models")) if models else ""
    check_python(page, tmp_path, before, PYTHONWARNINGS="default")
