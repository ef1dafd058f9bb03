"""Compiles each test plugin once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))  # abi_tables and plugin_host, for tests that are imported as files
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]

OPTIONS = ["-std=c++17", "-O0", "-fPIC", *WARNINGS]
INCLUDE = ROOT / "core" / "include"


class Compiler:
    """Compiles each file in `plugins` once, and links them into libraries.

    The SDK is precompiled, because parsing it dominates the compile time of a small file.
    """

    def __init__(self, program: str, folder: Path) -> None:
        self._program = program
        self._folder = folder
        self._made: dict[object, Path] = {}
        (folder / "opwright").mkdir()
        header = folder / "opwright" / "sdk.hpp"
        header.symlink_to(INCLUDE / "opwright" / "sdk.hpp")
        self._run("-x", "c++-header", header, "-o", header.with_suffix(".hpp.gch"))

    def build(self, *names: str) -> Path:
        """Return a library linked from these files."""
        if names not in self._made:
            objects = [self._compile(name) for name in names]
            target = self._folder / f"plugin{len(self._made)}.so"
            self._run("-shared", *objects, "-o", target)
            self._made[names] = target
        return self._made[names]

    def check(self, file: Path) -> None:
        """Check that a file compiles, whatever its warnings; write no output."""
        self._run("-w", "-fsyntax-only", file)

    def _compile(self, name: str) -> Path:
        if name not in self._made:
            target = self._folder / f"{name}.o"
            self._run("-c", HERE / "plugins" / name, "-o", target)
            self._made[name] = target
        return self._made[name]

    def _run(self, *arguments: str | Path) -> None:
        # The folder with the precompiled header must come first.
        folders = [f"-I{self._folder}", f"-I{INCLUDE}"]
        command = [self._program, *OPTIONS, *folders, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    """Return the compiler for plugins."""
    program = os.environ.get("CXX", "g++")
    if shutil.which(program) is None:
        pytest.skip(f"no C++ compiler {program} on this machine")
    return Compiler(program, tmp_path_factory.mktemp("plugins"))
