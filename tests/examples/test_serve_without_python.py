"""C and Rust programs that run a bundle give results that are bitwise identical to Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import opwright as ow
import opwright_cpu
from c_programs import find_library

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "serve_without_python"
COMPILERS = {
    "serve.c": ["cc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-D_ISOC11_SOURCE"],
    "serve.rs": ["rustc", "--edition", "2021", "-O", "-D", "warnings"],
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Return the folder with the bundle and its input, and the expected output lines."""
    folder = tmp_path_factory.mktemp("written")
    command = [sys.executable, str(EXAMPLE / "write_bundle.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return folder, done.stdout.splitlines()


def find_compiler(name: str) -> dict[str, str]:
    """Return the environment in which a compiler runs; skip the test without a compiler."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"needs {name}")
    # rustup searches for compilers in the home folder, which is empty in tests.
    env = {**os.environ, "RUSTUP_HOME": str(Path(found).parents[2] / ".rustup")}
    if subprocess.run([name, "--version"], env=env, capture_output=True, check=False).returncode:
        pytest.skip(f"needs {name}, found {found}, which does not run")
    return env


@pytest.mark.parametrize("name", COMPILERS)
def test_a_program_prints_the_output_of_python(
    name: str, written: tuple[Path, list[str]], tmp_path: Path
) -> None:
    compiler, *options = COMPILERS[name]
    env = find_compiler(compiler)
    folder, expected = written
    library = find_library()
    linked = f"{library} -Wl,-rpath,{library.parent}"
    links = ["-C", f"link-args={linked}"] if compiler == "rustc" else linked.split()
    include = ["-I", ow.get_include()] if compiler == "cc" else []
    program = [compiler, *options, str(EXAMPLE / name), *include, "-o", "serve", *links]
    subprocess.run(program, cwd=tmp_path, env=env, check=True)
    env = {**os.environ, "OPWRIGHT_LIBRARIES": os.pathsep.join(opwright_cpu.__path__)}
    done = subprocess.run(
        [str(tmp_path / "serve"), "digits.owb", "5"],
        input=(folder / "rows.txt").read_text(),
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed = [line.split() for line in done.stdout.splitlines()]
    wanted = [line.split() for line in expected]
    assert [row[0] for row in printed] == [row[0] for row in wanted]
    np.testing.assert_array_equal(
        np.array([row[1] for row in printed], "float32"),
        np.array([row[1] for row in wanted], "float32"),
    )
