"""Bundles of ONNX models run without Python."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from small_models import make_perceptron

import opwright_onnx
from c_programs import compile_runner, run_bundle


def test_a_bundle_of_a_model_gives_bitwise_identical_results_in_c(tmp_path: Path) -> None:
    loaded = opwright_onnx.load(make_perceptron()[0])
    loaded.bundle(tmp_path / "model.owb", batch=(1, 8))
    runner = compile_runner(tmp_path)
    for n in (1, 5):
        rows = np.random.default_rng(n).standard_normal((n, 4)).astype(np.float32)
        got = run_bundle(runner, tmp_path / "model.owb", n, [rows])
        np.testing.assert_array_equal(got, loaded(rows)[0].reshape(-1))
