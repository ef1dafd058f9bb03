"""Fixtures that install the broken plugins and the good plugin together, as pip would."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import opwright as ow
from opwright import Context

BROKEN = Path(__file__).parent / "broken"


@pytest.fixture(scope="session")
def control_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every package in `broken`, its metadata and its compiled C libraries."""
    site = tmp_path_factory.mktemp("controls")
    for source in sorted(BROKEN.iterdir()):
        package = site / source.name
        shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__"))
        for code in source.glob("*.c"):
            _compile(code, package / f"lib{code.stem}.so")
        plugin = source.name.removeprefix("opwright_")
        info = site / f"{source.name}-1.0.dist-info"
        info.mkdir()
        name = source.name.replace("_", "-")
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[opwright.plugins]\n{plugin} = {source.name}\n")
    return site


def _compile(source: Path, target: Path) -> None:
    command = ["gcc", "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    command += ["-fvisibility=hidden", f"-I{ow.get_include()}", str(source), "-o", str(target)]
    subprocess.run(command, check=True)


@pytest.fixture(scope="module")
def controls(control_site: Path) -> Iterator[Context]:
    """A context with these plugins in addition to the installed plugins."""
    sys.path.insert(0, str(control_site))
    try:
        with ow.context_guard(Context.discover()) as context:
            yield context
    finally:
        sys.path.remove(str(control_site))
