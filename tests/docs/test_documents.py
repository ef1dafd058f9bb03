"""Code in README and docs runs and prints the output shown there, and all links are valid.

The ``python`` blocks of a page are executed in order, in one namespace. A listing is an excerpt of
a file in an example package, or of the output of ``opwright new``. See `pages` for details.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import opwright as ow
from opwright_kit.scaffold import check_names, plan_package, write_package
from pages import (
    ELSEWHERE,
    FENCE,
    IN_PARTS,
    LISTING,
    check_output,
    check_python,
    commands_of,
    needs,
    outputs_agree,
    read_blocks,
    run,
    run_blocks,
    select_python,
)

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "plugins"
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("plugins/*/README.md")])
CORE_README = ROOT / "core" / "README.md"
if CORE_README.exists():
    PAGES.append(CORE_README)
ROUNDED = (
    "README.md",
    "docs/add_a_device.md",
    "docs/random_numbers.md",
    "docs/train_from_a_script.md",
    "plugins/nn/README.md",
)
"""Pages whose output must be the same for the kernels of every package."""


def is_for_this_environment(page: Path) -> bool:
    return bool(select_python(page)) and not any(needs(page, name) for name in ELSEWHERE)


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize(
    "page",
    [p for p in PAGES if p.name in IN_PARTS or is_for_this_environment(p)],
    ids=page_id,
)
def test_python_blocks_print_the_output_on_the_page(page: Path, tmp_path: Path) -> None:
    check_python(page, tmp_path)


@pytest.mark.grid(5)
@pytest.mark.parametrize("name", ROUNDED)
def test_the_output_of_a_page_does_not_depend_on_rounding(name: str, tmp_path: Path) -> None:
    """The NumPy kernels stand in for another processor, since they round differently."""
    page = ROOT / name
    blocks = select_python(page)
    for block, printed in zip(
        blocks, run_blocks(blocks, tmp_path, OPWRIGHT_PLUGINS="std"), strict=True
    ):
        check_output(page, block.text, block.printed or "", printed)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_column_of_a_table_has_a_title(page: Path) -> None:
    rule = re.compile(r"^(\|.*\|)\n\|(?: *:?-+:? *\|)+$", re.MULTILINE)
    for title in rule.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        assert all(cell.strip() for cell in title.strip("|").split("|")), title


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_console_blocks_print_the_output_on_the_page(page: Path, tmp_path: Path) -> None:
    for block in read_blocks(page):
        if block.language == "console":
            for command, expected in commands_of(block):
                check_output(page, command, expected, run(command, tmp_path))


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the generated packages that the pages use as starting points."""
    folder = tmp_path_factory.mktemp("generated")
    context = ow.Context.discover()
    for kind, language in [("operator", "python"), ("operator", "cpp"), ("device", "cpp")]:
        names = check_names("opwright-acme", context)
        package = plan_package(names, context, kind=kind, language=language)
        write_package(folder / f"{kind}-{language}", package.files)
    return folder


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_listings_are_excerpts_of_an_example_package(page: Path, generated: Path) -> None:
    for block in read_blocks(page):
        name = block.listed_file()
        if name is None or block.language not in ("python", "toml", "cpp"):
            continue
        folders = (EXAMPLES, generated)
        files = [f for folder in folders for f in folder.glob(f"*/{name}")]
        files += [f for folder in folders for f in folder.glob(f"*/src/{name}")]
        excerpt = LISTING.sub("", block.text, count=1).strip("\n")
        shown = [file for file in files if excerpt in file.read_text(encoding="utf-8")]
        assert shown, f"{page.name}: {name} has changed"


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_refer_to_existing_files(page: Path) -> None:
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", prose):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_promise_refers_to_an_existing_test() -> None:
    page = ROOT / "docs" / "what_opwright_promises.md"
    rows = [row for row in page.read_text(encoding="utf-8").splitlines() if row.endswith(". |")]
    promises = re.findall(r"^\| .+\. \| (.+) \|$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert promises
    assert not rows, "a promise without a test"
    for holders in promises:
        for target, name in re.findall(r"\]\(([^)#]+)#?([^)]*)\)", holders):
            text = (page.parent / target).read_text(encoding="utf-8")
            assert not name or f"def {name}(" in text, f"{target} has no test {name}"


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=page_id)
def test_make_commands_in_pages_are_targets_of_the_makefile(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    shown = "\n".join(block.text for block in read_blocks(page) if block.language == "")
    for target in re.findall(r"^\s*make ([a-z-]+)", shown, re.MULTILINE):
        assert target in targets, f"{page.name} names make {target}"


def test_every_decision_is_in_the_index() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text(encoding="utf-8")
    for page in folder.glob("[0-9]*.md"):
        assert f"]({page.name})" in index, f"docs/decisions/README.md does not list {page.name}"


@pytest.mark.parametrize(
    ("expected", "got", "agree"),
    [
        ("[1.  0.5]", "[1. 0.5]", True),
        ("loss 0.501", "loss 0.502", False),
        ("a\n...\nz", "a\nb\nc\nz", True),
        ("a\n...\nz", "a\nb", False),
        ("a", "a\nb", False),
    ],
)
def test_outputs_are_compared_to_the_last_digit(expected: str, got: str, agree: bool) -> None:
    assert outputs_agree(expected.splitlines(), got.splitlines()) is agree
