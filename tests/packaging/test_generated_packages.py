"""Four commands, beginning with `opwright new`, lead from an empty folder to a checked package."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def use(environment: Any, name: str, plugin: str) -> None:
    """Run the example of an installed package, and check it with the kit."""
    printed = environment.run("python", "-W", "error", f"{name}/example.py")
    assert printed.splitlines()[0].startswith("[-0.68824726 -0.57735")
    said = environment.run("opwright", "check", name)
    assert f"{plugin}.isru_grad" in said
    assert " 0 failed" in said
    environment.uninstall(name)


def test_a_python_package_is_generated_installed_used_and_checked(testing_environment: Any) -> None:
    environment = testing_environment
    environment.run("opwright", "new", "opwright-acme")
    environment.install(environment.folder / "opwright-acme")
    tests = environment.folder / "opwright-acme" / "tests"
    environment.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", tests)
    use(environment, "opwright-acme", "acme")


@pytest.mark.long("it compiles; tests/kit/scaffold compile the same package in place")
def test_a_cpp_package_is_generated_installed_used_and_checked(
    environment: Any, tmp_path: Path
) -> None:
    """pip builds the wheel with installed tools, since CMake would be a download of 100 MB."""
    environment.run("opwright", "new", "opwright-zenith", "--language", "cpp")
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
    command += ["--no-build-isolation", "--no-deps", "--wheel-dir", str(tmp_path)]
    folder = environment.folder / "opwright-zenith"
    subprocess.run([*command, str(folder)], check=True, timeout=600)
    [wheel] = tmp_path.glob("*.whl")
    assert wheel.name.startswith("opwright_zenith-0.1.0-py3-none-")
    assert "opwright_zenith/zenith.so" in zipfile.ZipFile(wheel).namelist()
    environment.install(wheel)
    use(environment, "opwright-zenith", "zenith")
