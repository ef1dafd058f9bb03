"""The CMake package: what find_package(opwright) gives to a plugin."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from plugin_host import Library

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "plugins" / "opwright-cos-sim"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cmake") is None, reason="no CMake on this machine")
def test_the_example_is_built_with_nothing_but_find_package(tmp_path):
    options = [
        f"-Dopwright_DIR={ROOT / 'core' / 'cmake'}",
        "-DSKBUILD_PROJECT_VERSION_FULL=1.0",
        f"-DCMAKE_INSTALL_PREFIX={tmp_path / 'installed'}",
    ]
    subprocess.run(["cmake", "-S", EXAMPLE, "-B", tmp_path / "build", *options], check=True)
    subprocess.run(["cmake", "--build", tmp_path / "build", "--target", "install"], check=True)
    library = Library(tmp_path / "installed" / "opwright_cos_sim" / "acme_cos_sim.so")
    assert (library.code, library.plugin.version) == (0, b"1.0")
    assert list(library.ops) == ["acme.cos_sim"]
