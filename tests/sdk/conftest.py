"""Plugins that the tests compile, each once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))  # abi_tables and plugin_host, for tests that are imported as files
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]

Compile = Callable[..., Path]


@pytest.fixture(scope="session")
def compile_plugin(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """Return a function that compiles files to a plugin library and returns its path."""
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None:
        pytest.skip(f"no C++ compiler {compiler} on this machine")
    folder = tmp_path_factory.mktemp("plugins")
    made: dict[tuple[object, ...], Path] = {}

    def compile(*files: Path | str, flags: tuple[str, ...] = ()) -> Path:
        key = (files, flags)
        if key not in made:
            target = folder / f"plugin{len(made)}.so"
            sources = [str(HERE / "plugins" / file) for file in files]
            include = f"-I{ROOT / 'core' / 'include'}"
            options = ["-std=c++17", "-O1", "-fPIC", "-shared", *WARNINGS, *flags, include]
            subprocess.run([compiler, *options, *sources, "-o", str(target)], check=True)
            made[key] = target
        return made[key]

    return compile
