"""Tests the device in examples/plugins/opwright-opencl; pip installs it into a separate folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from example_wheels import EXAMPLES, build_example_wheel
from pages import check_output, commands_of, read_blocks

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SOURCE = EXAMPLES / "opwright-opencl"
OWN_TESTS = "python -m pytest -q -p no:cacheprovider --import-mode=importlib tests"

OPEN = """
from opwright.errors import DeviceNotFoundError
from opwright_opencl.device import DEVICES
try:
    DEVICES.open(0)
except DeviceNotFoundError as error:
    print(error)
"""


NO_PLATFORM = """
class Error(Exception):
    pass

def get_platforms():
    return []
"""


class Installed:
    """The package, installed only for the processes that these tests start."""

    def __init__(self, folder: Path) -> None:
        wheel = build_example_wheel(SOURCE.name, folder)
        site = folder / "site"
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        subprocess.run([*command, "--no-deps", "--target", site, wheel], check=True, timeout=600)
        kernels = folder / "compiled"  # shared by the processes of all tests
        kernels.mkdir()
        self.environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(site),
            "PYTHONWARNINGS": "error",
            "COLUMNS": "100",
            "POCL_CACHE_DIR": str(kernels),
        }

    def run(self, command: str, **variables: str) -> str:
        """Run a command in the folder of the example and return its output."""
        done = subprocess.run(
            command,
            cwd=SOURCE,
            env={**self.environment, **variables},
            shell=True,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def needs_device(self) -> None:
        """Skip the test with a reason if no OpenCL device works."""
        reason = self.run(f"python -c '{OPEN}'").strip()
        if reason:
            pytest.skip(reason)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("opencl"))


@pytest.fixture(scope="module")
def installed(package: Installed) -> Installed:
    """Return the package; skip the test on machines without a working device."""
    package.needs_device()
    return package


def test_the_readme_commands_print_the_output_on_the_page(installed: Installed) -> None:
    page = SOURCE / "README.md"
    [block] = [block for block in read_blocks(page) if block.language == "console"]
    [(install, nothing), *commands] = commands_of(block)
    assert (install, nothing) == ('pip install --quiet ".[pocl]"', "")
    for command, expected in commands:
        check_output(page, command, expected, installed.run(command))


def test_the_tests_of_the_package_pass(installed: Installed) -> None:
    assert " passed" in installed.run(OWN_TESTS)


def test_without_a_working_device_tests_and_kit_skip_with_the_reason(
    package: Installed, tmp_path: Path
) -> None:
    """A fake pyopencl finds no platform, since OpenCL loaders hide platforms in different ways."""
    (tmp_path / "pyopencl.py").write_text(NO_PLATFORM)
    path = f"{tmp_path}{os.pathsep}{package.environment['PYTHONPATH']}"
    printed = package.run(f"{OWN_TESTS} -rs", PYTHONPATH=path)
    assert "opencl: a platform must be installed, got none (an empty list)" in printed
    assert " passed, " in printed  # the tests that run without a device
    checked = package.run("opwright check opwright-opencl", PYTHONPATH=path)
    assert checked.endswith("; nothing found\n")


@pytest.mark.long("every rule compiles OpenCL kernels for every dtype")
def test_doctor_and_conformance_kit_find_no_faults(installed: Installed) -> None:
    assert installed.run("opwright doctor").endswith("\nno problem found\n")
    checked = installed.run("opwright check opwright-opencl --dtype float32")
    assert checked.endswith("; nothing found\n")
