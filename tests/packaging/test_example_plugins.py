"""The example packages are installed with plain pip, as in their READMEs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from example_wheels import EXAMPLES
from installed_releases import pinned
from pages import check_output, commands_of, read_blocks

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

INSTALL = "pip install --quiet ."
COMPILED = pytest.mark.long("it is compiled from nothing, as where no CMake is installed")
NAMES = (pytest.param("opwright-cosine", marks=COMPILED), "opwright-swish")


@pytest.fixture(scope="module")
def index(wheels: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder used as an index, with all build requirements, including opwright."""
    folder = tmp_path_factory.mktemp("index")
    [core] = [wheel for wheel in wheels if wheel.name.startswith("opwright-")]
    shutil.copy2(core, folder)
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"]
    command += ["--dest", str(folder), "hatchling", "scikit-build-core", str(core)]
    environ = {**os.environ, **pinned(tmp_path_factory.mktemp("releases"))}
    subprocess.run(command, check=True, timeout=600, env=environ)
    return folder


def copy_example(name: str, folder: Path) -> Path:
    """Copy an example like ``cp -r``, which keeps symbolic links."""
    ignored = shutil.ignore_patterns("build", "__pycache__")
    return Path(shutil.copytree(EXAMPLES / name, folder / name, symlinks=True, ignore=ignored))


@pytest.fixture(scope="module", params=NAMES)
def example(
    request: pytest.FixtureRequest, testing_environment: Any, index: Path
) -> Iterator[Path]:
    """Copy the folder of an example out of the repository and install it; yield the copy."""
    environment, name = testing_environment, request.param
    source = copy_example(name, environment.folder)
    environment.install("--no-index", "--find-links", index, source)
    yield source
    environment.uninstall(name)
    assert name not in environment.run("opwright", "plugins")


@COMPILED
def test_the_copied_folder_of_a_device_can_be_installed(
    environment: Any, index: Path, tmp_path: Path
) -> None:
    """pyopencl is absent; the package reports this only at first use."""
    source = copy_example("opwright-opencl", tmp_path)
    environment.install("--no-index", "--find-links", index, "--no-deps", source)
    assert "opwright-opencl 1.0" in environment.run("opwright", "plugins")
    environment.uninstall("opwright-opencl")


def test_an_installed_example_is_found_and_passes_its_checks(
    example: Path, environment: Any
) -> None:
    """The environment has neither the requirements of opwright-cuda nor a GPU."""
    assert example.name in environment.run("opwright", "plugins")
    assert environment.run("opwright", "doctor").endswith("\nno problem found\n")


def test_the_commands_in_the_readme_of_an_example_print_the_output_shown_there(
    example: Path, environment: Any
) -> None:
    page = example / "README.md"
    [block] = [block for block in read_blocks(page) if block.language == "console"]
    [(install, nothing), *commands] = commands_of(block)
    assert (install, nothing) == (INSTALL, "")
    assert commands
    for command, expected in commands:
        printed = environment.shell(command, example)
        check_output(page, command, expected, printed)


def test_the_tests_in_an_example_pass(example: Path, environment: Any) -> None:
    environment.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", example / "tests")
