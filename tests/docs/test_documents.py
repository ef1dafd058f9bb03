"""README and docs: what they show runs, prints what they say it prints, and links to what exists.

A ``python`` block is executed, in the order of the page and in one name space; a ``text`` block
directly below is what it prints. A ``console`` block holds ``$ command`` lines with their output. A
block that begins with the comment ``# path/of/a/file`` is an excerpt of that file of the example
package. Numbers with a fraction may differ by 2 %: the last digits depend on the processor. A line
``...`` stands for any number of lines.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
ACME = ROOT / "examples" / "plugins" / "opwright-acme"
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("plugins/*/README.md")])
CORE_README = ROOT / "core" / "README.md"
if CORE_README.exists():
    PAGES.append(CORE_README)

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LISTING = re.compile(r"# ([\w./-]+\.(?:py|toml))\b[^\n]*\n")
NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:e[+-]?\d+)?")
TOLERANCE = 0.02


class Block(NamedTuple):
    """A fenced block: its language, its text, and what directly follows it as ``text``."""

    language: str
    text: str
    printed: str | None

    def listed_file(self) -> str | None:
        match = LISTING.match(self.text)
        return match[1] if match else None


def read_blocks(page: Path) -> list[Block]:
    source = page.read_text(encoding="utf-8")
    found = list(FENCE.finditer(source))
    blocks = []
    for fence, following in zip_longest(found, found[1:]):
        adjacent = following is not None and not source[fence.end() : following.start()].strip()
        printed = following[2] if adjacent and following and following[1] == "text" else None
        blocks.append(Block(fence[1], fence[2], printed))
    return blocks


def select_python(page: Path) -> list[Block]:
    blocks = read_blocks(page)
    return [b for b in blocks if b.language == "python" and b.listed_file() is None]


def commands_of(block: Block) -> list[tuple[str, str]]:
    """Split a console block into commands and what each prints."""
    parts = re.split(r"^\$ (.*)\n", block.text, flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def numbers_agree(expected: str, got: str) -> bool:
    if expected == got:
        return True
    if "." not in expected and "e" not in expected:
        return False
    wanted, value = float(expected), float(got)
    return abs(value - wanted) <= TOLERANCE * max(abs(wanted), 1e-6)


def lines_agree(expected: str, got: str) -> bool:
    if NUMBER.sub("#", expected).split() != NUMBER.sub("#", got).split():
        return False
    pairs = zip(NUMBER.findall(expected), NUMBER.findall(got), strict=True)
    return all(numbers_agree(wanted, value) for wanted, value in pairs)


def outputs_agree(expected: list[str], got: list[str]) -> bool:
    """Compare line by line, an expected ``...`` matching any lines."""
    if not expected:
        return not got
    if expected[0].strip() == "...":
        return any(outputs_agree(expected[1:], got[skip:]) for skip in range(len(got) + 1))
    return bool(got) and lines_agree(expected[0], got[0]) and outputs_agree(expected[1:], got[1:])


def check_output(page: Path, code: str, expected: str, got: str) -> None:
    wanted, printed = expected.rstrip().splitlines(), got.rstrip().splitlines()
    if not outputs_agree(wanted, printed):
        pytest.fail(f"{page.name}:\n{code}\nsays that it prints\n{expected}\nbut prints\n{got}")


def run(command: list[str] | str, cwd: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "PATH": path, "COLUMNS": "100", "PYTHONWARNINGS": "error"},
        shell=isinstance(command, str),
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    if done.returncode:
        pytest.fail(f"{command}\nexit status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def run_blocks(blocks: list[Block], cwd: Path) -> list[str]:
    """Execute the blocks in one process and return what each printed."""
    mark = "<<end of block>>"
    script = cwd / "page.py"
    codes = [block.text for block in blocks]
    script.write_text(
        "import json\nnames = {'__name__': '__main__'}\n"
        f"for number, code in enumerate(json.loads({json.dumps(codes)!r})):\n"
        "    exec(compile(code, f'<block {number}>', 'exec'), names)\n"
        f"    print({mark!r}, flush=True)\n",
        encoding="utf-8",
    )
    return run([sys.executable, str(script)], cwd).split(mark + "\n")[:-1]


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [p for p in PAGES if select_python(p)], ids=page_id)
def test_python_blocks_print_what_the_page_says(page: Path, tmp_path: Path) -> None:
    blocks = select_python(page)
    for block, printed in zip(blocks, run_blocks(blocks, tmp_path), strict=True):
        if block.printed is not None:
            check_output(page, block.text, block.printed, printed)
        elif printed.strip():
            pytest.fail(f"{page.name}: a block prints\n{printed}\nbut the page does not show it")


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_console_blocks_print_what_the_page_says(page: Path, tmp_path: Path) -> None:
    for block in read_blocks(page):
        if block.language == "console":
            for command, expected in commands_of(block):
                check_output(page, command, expected, run(command, tmp_path))


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_listings_are_excerpts_of_the_example_package(page: Path) -> None:
    for block in read_blocks(page):
        name = block.listed_file()
        if name is None or block.language not in ("python", "toml"):
            continue
        [file] = [path for path in (ACME / name, ACME / "src" / name) if path.exists()]
        excerpt = LISTING.sub("", block.text, count=1).strip("\n")
        assert excerpt in file.read_text(encoding="utf-8"), f"{page.name}: {name} has changed"


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_lead_to_files_that_exist(page: Path) -> None:
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", prose):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


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
        ("loss 0.501", "loss 0.505", True),
        ("loss 0.501", "loss 0.55", False),
        ("shape 10", "shape 11", False),
        ("a\n...\nz", "a\nb\nc\nz", True),
        ("a\n...\nz", "a\nb", False),
        ("a", "a\nb", False),
    ],
)
def test_outputs_are_compared_up_to_the_last_digits(expected: str, got: str, agree: bool) -> None:
    assert outputs_agree(expected.splitlines(), got.splitlines()) is agree
