"""The documentation site builds without warnings, and its reference pages are complete."""

from __future__ import annotations

import html
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import opwright

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "docs" / "site"
ABI = ROOT / "core" / "include" / "opwright" / "abi.h"

MODULES = (
    "opwright",
    "opwright.op",
    "opwright.plugin",
    "opwright_kit.testing",
    "opwright_nn.layers",
)
of_the_site = pytest.mark.long("Sphinx writes a page for each operator")


def load(name: str) -> ModuleType:
    """Import a file from the sources of the site."""
    spec = importlib.util.spec_from_file_location(f"site_{name}", SOURCES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site from scratch, with warnings as errors; return its folder."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, str(SOURCES / "build.py"), "--to", str(folder / "html")]
    done = subprocess.run(
        [*command, "--work", str(folder / "work")],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return folder / "html"


def headings(page: Path) -> str:
    """Return the text of all headings of a page."""
    found = re.findall(r"<h[1-6]>(.*?)<a class=\"headerlink\"", page.read_text(), re.DOTALL)
    return html.unescape(re.sub(r"<[^>]+>", "", "\n".join(found)))


@of_the_site
def test_every_operator_has_a_page_and_a_place_in_the_index(site: Path) -> None:
    index = (site / "operators" / "index.html").read_text()
    own = [type for type in opwright.list_ops() if "." not in type]
    assert len(own) > 80
    for type in own:
        assert (site / "operators" / f"{type}.html").exists(), type
        assert f'href="{type}.html"' in index


@of_the_site
def test_the_page_of_an_operator_shows_its_definition(site: Path) -> None:
    page = (site / "operators" / "softmax.html").read_text()
    text = re.sub(r"<[^>]+>", "", page)
    for part in ("the axis of the classes", "opwright-cpu", "shape and dtype of x", "Gradient"):
        assert part in text


@of_the_site
def test_every_c_interface_name_has_a_heading(site: Path) -> None:
    text = ABI.read_text()
    names = set(re.findall(r"^(?:typedef )?struct (ow_\w+) \{", text, re.MULTILINE))
    names |= set(re.findall(r"^typedef .*\(\*(ow_\w+)\)\(", text, re.MULTILINE))
    names |= set(re.findall(r"^#define (OW_\w+)", text, re.MULTILINE))
    assert len(names) > 50
    shown = set(re.findall(r"\w+", headings(site / "c" / "abi.html")))
    assert names <= shown, names - shown


@of_the_site
@pytest.mark.parametrize("name", ["OPWRIGHT_PLUGIN", "OpMaker", "RunContext", "Status", "SiluGrad"])
def test_every_tested_cpp_sdk_name_has_a_heading(site: Path, name: str) -> None:
    pages = [*(site / "c").glob("sdk_*.html"), site / "c" / "functors.html"]
    assert any(name in headings(page).split() for page in pages)


@of_the_site
@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_of_a_module_is_described(site: Path, module: str) -> None:
    text = (site / "python" / f"{module}.html").read_text()
    found = importlib.import_module(module)
    modules = {name for name in found.__all__ if isinstance(getattr(found, name), ModuleType)}
    for name in {*found.__all__} - modules - {"__version__"}:
        assert f">{name}</span></span>" in text, name


@of_the_site
def test_every_page_is_in_the_list_of_documents(site: Path) -> None:
    index = (site / "index.html").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        if page.name != "README.md":
            assert f'href="{page.stem}.html"' in index, f"docs/README.md does not list {page.name}"


@of_the_site
def test_the_first_page_shows_the_program_the_chart_and_the_comparison(site: Path) -> None:
    page = (site / "index.html").read_text()
    text = html.unescape(re.sub(r"<[^>]+>", "", page))
    for part in ("ow.ops.softmax(x)", "[[0.09 0.24 0.67]]", "tvm-ffi", "better at"):
        assert part in text
    (chart,) = re.findall(r'<img [^>]*src="([^"]+benchmarks\.svg)"', page)
    assert (site / chart).read_text().startswith("<svg")


def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "index.md").write_text("# Title\n\n[here](gone.md)\n")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-b", "dummy", "-c", str(SOURCES)]
    command += [str(tmp_path), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 1
    assert "gone.md" in done.stderr


def test_every_declaration_of_a_header_is_read() -> None:
    headers = load("headers")
    text = """
// What a thing is.
class Thing {
 public:
  int size() const { return size_; }

 private:
  int size_;
};

namespace detail {
class Hidden {};
}  // namespace detail

/* Two bits. */
#define A 1
#define B 2

/* Called with a thing. */
typedef int (*call_fn)(const Thing* thing);
"""
    thing, bits, call = headers.read_items(text)
    assert thing == (
        ("Thing",),
        "What a thing is.",
        "class Thing {\n public:\n  int size() const { return size_; }\n};",
    )
    assert bits == (("A", "B"), "Two bits.", "#define A 1\n#define B 2")
    assert call[:2] == (("call_fn",), "Called with a thing.")


def test_link_targets_outside_the_documents_are_copied_and_a_folder_is_reported(
    tmp_path: Path,
) -> None:
    sys.path.insert(0, str(SOURCES))
    try:
        pages = load("pages")
    finally:
        sys.path.remove(str(SOURCES))
    for name, text in {
        "docs/README.md": "# Documentation\n\n## Use\n\n[Page](page.md)\n",
        "docs/page.md": "# Page\n\n[the file](../src/a.c), [all](../src), [top](README.md)\n",
        "docs/decisions/README.md": "# Decisions\n",
        "src/a.c": "int a;\n",
        "src/b.svg": "<svg/>\n",
        "README.md": "# It\n\n![b](src/b.svg), [P](docs/page.md)\n\n## The packages\n\nmany\n",
        "CHANGELOG.md": "# Changelog\n",
        "CONTRIBUTING.md": "[Page](docs/page.md#part)\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    made = pages.make_pages(tmp_path)
    assert made["page.md"] == b"# Page\n\n[the file](files/src/a.c), all (`src`), [top](index.md)\n"
    assert made["files/src/a.c"] == b"int a;\n"
    assert made["contributing.md"] == b"[Page](page.md#part)\n"
    assert b":caption: Use\n:hidden:\n\npage\n" in made["index.md"]
    assert made["index.md"].startswith(b"# It\n\n![b](files/src/b.svg), [P](page.md)\n")
    assert made["files/src/b.svg"] == b"<svg/>\n"
    assert b"make" not in made["index.md"]
