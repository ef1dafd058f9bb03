"""Markdown pages: their fenced blocks, and comparison of their outputs.

A ``text`` block directly below a ``python`` block is its output. A ``console`` block contains ``$
command`` lines with their output. A block that begins with the comment ``# path/of/a/file``, or
``// path/of/a/file``, is an excerpt of that file. In an expected output, a line ``...`` matches any
number of lines, and a blank matches any number of blanks. All other output must be the same on
every processor, so a page rounds or compares values that rounding errors can change, such as an
accuracy, before it prints them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import pytest

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LISTING = re.compile(r"(?:#|//) ([\w./-]+\.(?:py|toml|h|cc))\b[^\n]*\n")


ELSEWHERE = ("jax", "onnx", "torch")
"""Packages with a separate environment, whose pages are tested separately."""

IN_PARTS = ("publish_once_run_everywhere.md",)
"""Pages about several packages, in which blocks are skipped if their packages are missing."""


class Block(NamedTuple):
    """A fenced block: its language, its text, and a ``text`` block directly below it."""

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


def commands_of(block: Block) -> list[tuple[str, str]]:
    """Split a console block into commands and their outputs."""
    parts = re.split(r"^\$ (.*)\n", block.text, flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def outputs_agree(expected: list[str], got: list[str]) -> bool:
    """Compare line by line; an expected ``...`` matches any lines."""
    if not expected:
        return not got
    if expected[0].strip() == "...":
        return any(outputs_agree(expected[1:], got[skip:]) for skip in range(len(got) + 1))
    return (
        bool(got) and expected[0].split() == got[0].split() and outputs_agree(expected[1:], got[1:])
    )


def check_output(page: Path, code: str, expected: str, got: str) -> None:
    wanted, printed = expected.rstrip().splitlines(), got.rstrip().splitlines()
    if not outputs_agree(wanted, printed):
        pytest.fail(f"{page.name}:\n{code}\nsays that it prints\n{expected}\nbut prints\n{got}")


def select_python(page: Path) -> list[Block]:
    blocks = read_blocks(page)
    return [b for b in blocks if b.language == "python" and b.listed_file() is None]


def run(command: list[str] | str, cwd: Path, **variables: str) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=cwd,
        env={
            **os.environ,
            "PATH": path,
            "COLUMNS": "100",
            "PYTHONWARNINGS": "error",
            **variables,
        },
        shell=isinstance(command, str),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    if done.returncode:
        pytest.fail(f"{command}\nexit status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def run_blocks(
    blocks: list[Block],
    cwd: Path,
    before: str = "",
    *,
    python: str = sys.executable,
    **variables: str,
) -> list[str]:
    """Execute the blocks in one process, with these variables, and return their outputs.

    `before` is code that runs first.
    """
    mark = "<<end of block>>"
    script = cwd / "page.py"
    codes = [block.text for block in blocks]
    script.write_text(
        before + "\nimport json\nnames = {'__name__': '__main__'}\n"
        f"for number, code in enumerate(json.loads({json.dumps(codes)!r})):\n"
        "    exec(compile(code, f'<block {number}>', 'exec'), names)\n"
        f"    print({mark!r}, flush=True)\n",
        encoding="utf-8",
    )
    return run([python, str(script)], cwd, **variables).split(mark + "\n")[:-1]


def needs(page: Path, package: str) -> bool:
    """Return whether a page imports a package that needs a separate environment."""
    return any(_imports(block, package) for block in select_python(page))


def _imports(block: Block, package: str) -> bool:
    return any(f"import {name}" in block.text for name in (package, f"opwright_{package}"))


def _can_run(block: Block) -> bool:
    """Return whether the requirements of a block are installed, on a page for several packages."""
    absent = [name for name in ELSEWHERE if _imports(block, name) and find_spec(name) is None]
    tools = [tool for tool in ("pkg-config", "cc") if f'["{tool}"' in block.text]
    return not absent and all(map(shutil.which, tools))


def _install_example(folder: Path) -> dict[str, str]:
    """Return environment variables that make opwright-stretch and libopwright look installed."""
    from c_programs import find_library
    from example_wheels import build_example_wheel

    wheel = build_example_wheel("opwright-stretch", folder / "wheels")
    zipfile.ZipFile(wheel).extractall(folder / "site")
    library, include = find_library().parent, Path(__file__).parents[2] / "core" / "include"
    (folder / "opwright.pc").write_text(
        f"libdir={library}\nName: opwright\nDescription: libopwright\nVersion: 0\n"
        f"Cflags: -I{include}\nLibs: -L{library} -lopwright\n"
    )
    return {"PYTHONPATH": str(folder / "site"), "PKG_CONFIG_PATH": str(folder)}


def check_python(
    page: Path, folder: Path, before: str = "", *, python: str = sys.executable, **variables: str
) -> None:
    """Execute the blocks of a page in order, after the code in `before`, and compare outputs."""
    blocks = select_python(page)
    if page.name in IN_PARTS:
        blocks = [block for block in blocks if _can_run(block)]
        variables |= _install_example(folder)
    outputs = run_blocks(blocks, folder, before, python=python, **variables)
    for block, printed in zip(blocks, outputs, strict=True):
        if block.printed is not None:
            check_output(page, block.text, block.printed, printed)
        elif printed.strip():
            pytest.fail(f"{page.name}: a block prints\n{printed}\nbut the page does not show it")
