"""`make tidy` reports each finding of clang-tidy in our C++ code once."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEADER = """
inline bool IsClose(float a, float b) { return (a - b) * sizeof(a) < 1; }
struct Base {
  virtual ~Base() = default;
  virtual int size() const { return 0; }
};
struct Derived : Base {
  virtual int size() const { return 1; }
};
"""


@pytest.fixture
def commands(tmp_path: Path) -> Path:
    """Write two files with one header, and their compilation database; return its path."""
    folder = tmp_path / "core" / "native"
    folder.mkdir(parents=True)
    shutil.copy2(ROOT / ".clang-tidy", tmp_path)
    (folder / "shapes.h").write_text(f"#pragma once\n{HEADER}")
    entries = []
    for name in ("first", "second"):
        file = folder / f"{name}.cc"
        file.write_text(f'#include "shapes.h"\nint {name}() {{ return Derived().size(); }}\n')
        command = f"g++ -std=c++17 -fno-tree-pre -c {file}"
        entries.append({"directory": str(folder), "command": command, "file": str(file)})
    (folder / "clean.cc").write_text("int clean() { return 0; }\n")
    entries.append({**entries[0], "command": "g++ -c clean.cc", "file": str(folder / "clean.cc")})
    (tmp_path / "compile_commands.json").write_text(json.dumps(entries))
    return tmp_path / "compile_commands.json"


def run_tidy(commands: Path, *parts: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / ".ci" / "tidy.py"), str(commands), *parts]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_finding_in_a_header_is_reported_once_and_fails(commands: Path) -> None:
    done = run_tidy(commands)
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.count("[modernize-use-override") == 1
    assert done.stdout.endswith("findings of clang-tidy in 3 files\n")


def test_files_are_selected_by_a_part_of_their_path(commands: Path) -> None:
    done = run_tidy(commands, "native/clean")
    assert (done.returncode, done.stdout) == (0, "0 findings of clang-tidy in 1 files\n")


def test_a_path_filter_that_matches_no_file_raises(commands: Path) -> None:
    done = run_tidy(commands, "native/absent")
    assert done.returncode == 1
    assert "must contain one of ['native/absent'], got none" in done.stderr


def test_a_file_that_does_not_compile_is_reported(commands: Path) -> None:
    (commands.parent / "core" / "native" / "clean.cc").write_text("int clean( { return 0; }\n")
    done = run_tidy(commands, "clean")
    assert done.returncode == 1
    assert "[clang-diagnostic-error]" in done.stdout
