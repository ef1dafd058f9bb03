"""A C program linked with libopwright computes the same results as Python."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from bundle_models import NAMES, draw, make

from c_programs import compile_runner, find_library, run_bundle


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_runner(tmp_path_factory.mktemp("c"))


@pytest.mark.parametrize("name", NAMES)
def test_results_of_a_c_program_are_bitwise_identical_to_python(
    name: str, program: Path, tmp_path: Path
) -> None:
    network, compiled, shapes = make(name)
    path = tmp_path / "model.owb"
    network.bundle(path, shapes, (1, 4))
    for n, n_sessions in ((1, 1), (3, 4)):
        feeds = draw(shapes, n)
        got = run_bundle(program, path, n, list(feeds.values()), n_sessions)
        expected = np.concatenate([result.reshape(-1) for result in compiled(**feeds)])
        np.testing.assert_array_equal(got, expected)


def test_the_library_exports_only_the_functions_of_its_header() -> None:
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", find_library()], capture_output=True, text=True, check=True
    ).stdout
    names = {line.split()[-1] for line in listed.splitlines()}
    assert len(names) == 19
    assert all(name.startswith("ow_") for name in names), names
    assert find_library().stat().st_size <= 1_000_000
