"""16-bit floats are converted for computation with only the SDK header."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import opwright as ow

SOURCE = Path(__file__).parent / "test_element.cc"
FLAGS = ["-std=c++17", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]


@pytest.mark.skipif(shutil.which(os.environ.get("CXX", "g++")) is None, reason="needs a compiler")
def test_elements_are_restored_unchanged(tmp_path: Path) -> None:
    program = tmp_path / "element"
    build = [os.environ.get("CXX", "g++"), *FLAGS, f"-I{ow.get_include()}", str(SOURCE)]
    subprocess.run([*build, "-o", str(program)], check=True, timeout=300)
    done = subprocess.run([program], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout
