"""Unmodified generated kernels and devices pass the kit; tests/packaging installs the packages."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest
from generated_packages import find_faults, lay_out, run_python

from opwright import get_include


@pytest.fixture(scope="module")
def compiler() -> list[str]:
    """Return a compiler command without optimization, which halves the compile time."""
    return ["c++", "-std=c++17", "-O0", "-Wall", "-Wextra", "-Werror", f"-I{get_include()}"]


def test_kernels_and_devices_pass_the_kit(
    packages: Path, compiler: list[str], tmp_path: Path
) -> None:
    names = ["opwright-kernel-python", "opwright-pair-cpp", "opwright-device-python"]
    for name in names:
        lay_out(packages / name, tmp_path)
    [source] = (packages / "opwright-pair-cpp" / "native").glob("*.cc")
    library = tmp_path / "opwright_pair_cpp" / "pair_cpp.so"
    subprocess.run([*compiler, "-fPIC", "-shared", source, "-o", library], check=True)
    assert find_faults(packages, tmp_path, *names) == []


BUILD = """
import sys
import scikit_build_core.build as backend

folder = sys.argv[1]
options = {"build-dir": f"{folder}/build", "cmake.build-type": "Debug"}
backend.build_wheel(folder, options | {"cmake.define.CMAKE_CXX_FLAGS": "-Werror"})
"""


@pytest.mark.slow
def test_the_wheel_of_a_cpp_device_passes_its_own_tests(packages: Path, tmp_path: Path) -> None:
    """The tests include the conformance kit. The build backend runs directly, without pip."""
    package = packages / "opwright-device-cpp"
    run_python(package, "-c", BUILD, str(tmp_path))
    [wheel] = tmp_path.glob("opwright_device_cpp-0.1.0-py3-none-*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    said = run_python(package, *tests, PYTHONPATH=str(tmp_path / "site"))
    assert "7 passed" in said


def test_a_kernel_with_one_input_compiles(packages: Path, compiler: list[str]) -> None:
    [source] = (packages / "opwright-kernel-cpp" / "native").glob("*.cc")
    subprocess.run([*compiler, "-fsyntax-only", source], check=True)


def test_cuda_kernels_pass_the_kit_in_the_emulator(packages: Path, tmp_path: Path) -> None:
    names = ["opwright-operator-cuda", "opwright-pair-cuda"]
    for name in names:
        lay_out(packages / name, tmp_path)
    assert find_faults(packages, tmp_path, *names) == []
