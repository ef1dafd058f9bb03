"""Packages as `opwright new` writes them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import opwright as ow

sys.path.insert(0, str(Path(__file__).parent))  # generated_packages, for tests imported as files

from generated_packages import BIN, PACKAGES

from opwright_kit.scaffold import check_names, plan_package, write_package


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which all packages were written."""
    folder = tmp_path_factory.mktemp("packages")
    context = ow.Context.discover()
    for name, (kind, language) in PACKAGES.items():
        operator = "maximum" if "pair" in name else None
        names = check_names(name, context)
        package = plan_package(names, context, kind=kind, language=language, operator=operator)
        write_package(folder / name, package.files)
    return folder


@pytest.fixture
def new(tmp_path: Path) -> Callable[..., Any]:
    """Return a function that runs `opwright new` in an empty folder, as a person would."""

    def run(*words: str, before: str = "") -> subprocess.CompletedProcess[str]:
        command = [
            "bash",
            "-c",
            f'{before} exec "$@"',
            "bash",
            str(BIN / "opwright"),
            "new",
            *words,
        ]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    return run
