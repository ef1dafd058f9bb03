"""Source distributions are complete, with copies in place of symbolic links."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest

PACKAGES = [
    "core",
    "plugins/std",
    "plugins/cpu",
    "plugins/cuda",
    "plugins/cuda_emulator",
    "plugins/nn",
    "plugins/kit",
]


@pytest.fixture(scope="session")
def unpack(sources, tmp_path_factory):
    """Return a function that builds and unpacks the source distribution of a package."""

    def make(package: str) -> Path:
        folder = tmp_path_factory.mktemp("distribution")
        project = tomllib.loads((sources / package / "pyproject.toml").read_text())
        backend = project["build-system"]["build-backend"]
        code = f"import {backend} as backend; backend.build_sdist({str(folder)!r})"
        subprocess.run([sys.executable, "-c", code], cwd=sources / package, check=True)
        [archive] = folder.glob("*.tar.gz")
        with tarfile.open(archive) as opened:
            if hasattr(tarfile, "data_filter"):  # Python 3.11.4 and later
                opened.extraction_filter = tarfile.data_filter
            opened.extractall(folder / "unpacked")
        [root] = (folder / "unpacked").iterdir()
        return root

    return make


@pytest.mark.parametrize("package", PACKAGES)
def test_a_source_distribution_has_no_symbolic_links(unpack, sources, package):
    root = unpack(package)
    assert not [path for path in root.rglob("*") if path.is_symlink()]
    assert (root / "LICENSE").read_text() == (sources / "LICENSE").read_text()
    [version] = root.glob("src/*/_version.py")
    assert version.read_text() == (sources / "core/src/opwright/_version.py").read_text()


@pytest.mark.parametrize("package", ["plugins/cpu", "plugins/cuda"])
def test_a_compiled_plugin_contains_the_headers_of_the_core(unpack, sources, package):
    root = unpack(package)
    headers = hashes(root / "include")
    assert "opwright/abi.h" in headers
    assert headers == hashes(sources / "core" / "include")
    assert (root / "cmake" / "opwrightConfig.cmake").is_file()


def test_installed_build_requirements_match_the_packages(sources):
    """Builds without isolation would not detect a build requirement that a package omits."""
    lines = (sources / "requirements-build.txt").read_text().splitlines()
    builders = {line for line in lines if line and not line.startswith("#")}
    asked = set()
    for package in PACKAGES:
        project = tomllib.loads((sources / package / "pyproject.toml").read_text())
        asked |= set(project["build-system"]["requires"])
    assert asked <= builders
    # scikit-build-core requires cmake and ninja during a build, and hatchling requires editables.
    assert {line.partition(">")[0] for line in builders - asked} == {"cmake", "ninja", "editables"}


def hashes(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }
