"""Compares functors.h, compiled in the same way as kernels, with long double functions."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

import opwright as ow

SOURCE = Path(__file__).parent / "test_functors.cc"
FLAGS = ["-std=c++17", "-O2", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"]
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]


def check_accuracy(folder: Path, machine: list[str]) -> None:
    program = folder / "functors"
    compiler = os.environ.get("CXX", "g++")
    build = [compiler, *FLAGS, *WARNINGS, *machine, f"-I{ow.get_include()}", str(SOURCE)]
    subprocess.run([*build, "-o", str(program)], check=True, timeout=600)
    done = subprocess.run([program], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(shutil.which(os.environ.get("CXX", "g++")) is None, reason="needs a compiler")
def test_errors_of_elementary_functions_are_within_their_bounds(tmp_path: Path) -> None:
    check_accuracy(tmp_path, [])


@pytest.mark.skipif(
    platform.machine() != "x86_64"
    or "fma" not in Path("/proc/cpuinfo").read_text()
    or shutil.which(os.environ.get("CXX", "g++")) is None,
    reason="needs a compiler and a processor with fused multiply-add",
)
def test_errors_are_within_their_bounds_with_fused_multiply_add(tmp_path: Path) -> None:
    check_accuracy(tmp_path, ["-march=x86-64-v3"])
