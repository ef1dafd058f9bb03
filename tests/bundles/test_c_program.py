"""A program in C, linked with libopwright, computes what Python does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from bundle_models import NAMES, draw, make
from run_api import default_folders

import opwright as ow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the program, linked with what `make venv` has built."""
    built = sorted((ROOT / "core" / "build").glob("*/libopwright.so"), key=os.path.getmtime)
    assert built, "make venv builds libopwright.so"
    made = tmp_path_factory.mktemp("c") / "run_bundle"
    command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-D_ISOC11_SOURCE"]
    folder = built[-1].parent
    command += ["-I", ow.get_include(), str(Path(__file__).parent / "run_bundle.c")]
    command += ["-o", str(made), "-L", str(folder), "-lopwright", f"-Wl,-rpath,{folder}"]
    subprocess.run(command, check=True)
    return made


def _run(program: Path, *args: object, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    env = {**os.environ, "OPWRIGHT_NUM_THREADS": str(ow.get_num_threads())}
    command = [str(program), *map(str, args)]
    return subprocess.run(command, input=data, capture_output=True, env=env, check=False)


@pytest.mark.parametrize("name", NAMES)
def test_a_program_in_c_has_the_bits_of_python(name: str, program: Path, tmp_path: Path) -> None:
    network, compiled, shapes = make(name)
    path = tmp_path / "model.owb"
    network.bundle(path, shapes, (1, 4))
    for n in (1, 3):
        feeds = draw(shapes, n)
        data = b"".join(feed.tobytes() for feed in feeds.values())
        done = _run(program, path, default_folders(), n, data=data)
        assert done.returncode == 0, done.stderr.decode()
        expected = np.concatenate([result.reshape(-1) for result in compiled(**feeds)])
        np.testing.assert_array_equal(np.frombuffer(done.stdout, "float32"), expected)


def test_the_library_exports_the_functions_of_its_header_alone(program: Path) -> None:
    built = sorted((ROOT / "core" / "build").glob("*/libopwright.so"), key=os.path.getmtime)[-1]
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", built], capture_output=True, text=True, check=True
    ).stdout
    names = {line.split()[-1] for line in listed.splitlines()}
    assert len(names) == 19
    assert all(name.startswith("ow_") for name in names), names
    assert built.stat().st_size <= 1_000_000
