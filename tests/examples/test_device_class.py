"""The C++ device in docs/add_a_device.md is compiled as on the page, and used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pages import read_blocks

PAGE = Path(__file__).parents[2] / "docs" / "add_a_device.md"

TABLE = """
from opwright import plugin

LIBRARY = "opwright_shelf/shelf.so"

@plugin.hookimpl
def opwright_devices(registry):
    registry.add("shelf", LIBRARY)

@plugin.hookimpl
def opwright_kernels(registry):
    registry.add("relu", device="shelf", dtypes=["float32", "float64"], kernel=LIBRARY)
"""

USE = """
import numpy as np, opwright as ow
network = ow.Network(
    [ow.Operator("relu", x="x", out="r"), ow.Operator("negative", x="r", out="out")]
)
for device in ("shelf", "shelf:1", "shelf:2"):
    try:
        run = network.compile(
            ["x"], ["out"], device=device, scope=ow.Scope(), fallback="cpu", fetch_device=True
        )
        (out,) = run(x=np.float32([-1, 2]))
        print(out.device, out.numpy() + 0, network.placement().kernels["shelf/shelf"])
    except ow.errors.KernelError as error:
        print(error)
"""

PRINTED = """\
shelf [ 0. -2.] 1
shelf:1 [ 0. -2.] 1
shelf:2: the number of a device must be in [0, 2), got 2; choose an existing device
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a folder with the package as pip installs it."""
    blocks = read_blocks(PAGE)
    [source] = [b.text for b in blocks if b.language == "cpp" and b.listed_file() is None]
    [command] = [block.text for block in blocks if block.text.startswith("c++ ")]
    (tmp_path / "shelf.cc").write_text(source)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    strict = command.replace("-O2", "-O0 -Wall -Wextra -Wpedantic -Werror", 1)
    subprocess.run(strict, shell=True, check=True, cwd=tmp_path, env={**os.environ, "PATH": path})
    package, info = tmp_path / "opwright_shelf", tmp_path / "opwright_shelf-1.0.dist-info"
    for folder in (package, info):
        folder.mkdir()
    (tmp_path / "shelf.so").rename(package / "shelf.so")
    (package / "plugin.py").write_text(TABLE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: opwright-shelf\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[opwright.plugins]\nshelf = opwright_shelf.plugin\n")
    return tmp_path


def test_the_class_on_the_page_works_as_a_device(site: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, "-W", "error", "-c", USE]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == PRINTED
