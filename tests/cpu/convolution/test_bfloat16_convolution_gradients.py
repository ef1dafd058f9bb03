"""Gradients of bfloat16 convolutions are rounded once and propagate infinities and NaN."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import opwright as ow
from opwright_kit.testing import Sample, run_kernel

pytestmark = [
    pytest.mark.grid(6),
    pytest.mark.skipif(
        "avx512bw" not in Path("/proc/cpuinfo").read_text(),
        reason="oneDNN computes bfloat16 with AVX-512, which this processor lacks",
    ),
]

SLOTS = ("x_grad", "weight_grad", "bias_grad")
CASES = [
    ((5, 7, 7, 32), (32, 32, 3, 3), {"paddings": [1, 1, 1, 1]}),
    ((2, 12, 11, 3), (16, 3, 3, 3), {"paddings": [1, 1, 1, 1]}),
    ((3, 15, 16, 3), (24, 3, 7, 7), {"paddings": [3, 3, 3, 3], "strides": [2, 2]}),
    ((2, 13, 13, 64), (48, 64, 3, 3), {"paddings": [1, 1, 1, 1], "strides": [2, 2]}),
    ((4, 12, 12, 20), (50, 20, 5, 5), {}),
    ((2, 9, 9, 40), (24, 20, 3, 3), {"groups": 2, "paddings": [0, 1, 2, 0]}),
    ((2, 9, 8, 16), (32, 16, 1, 1), {"strides": [2, 2]}),
    # This case has too many weights for separate sums in each thread.
    ((3, 4, 4, 260), (256, 260, 3, 3), {"paddings": [1, 1, 1, 1]}),
]
"""Shapes of x and of the weight, and attributes."""


def make_arrays(
    x: tuple[int, ...], weight: tuple[int, ...], attrs: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Return float64 inputs of conv2d_grad whose values are representable in bfloat16."""
    shape = ow.Program().global_block()
    shape.create_var("x", x, "float64")
    shape.create_var("weight", weight, "float64")
    inputs = {"x": "x", "weight": "weight"}
    made = shape.append_op("conv2d", inputs, attrs={**attrs, "data_format": "NHWC"})
    out = shape.var(made.output("out")[0]).shape
    rng = np.random.default_rng(92)
    shapes = {"x": x, "weight": weight, "bias": weight[:1], "out_grad": out}
    return {
        slot: rng.standard_normal(shape).astype(ml_dtypes.bfloat16).astype("float64")
        for slot, shape in shapes.items()
    }


def compute(
    arrays: Mapping[str, np.ndarray],
    attrs: Mapping[str, Any],
    dtype: str,
    library: str,
    n_threads: int = 1,
) -> dict[str, np.ndarray]:
    """Return the gradients of x, weight and bias as float64, computed by one library."""
    context = ow.current_context()
    attrs = context.ops.get("conv2d_grad").proto.fill_attrs({**attrs, "data_format": "NHWC"})
    inputs = {slot: (array.astype(dtype),) for slot, array in arrays.items()}
    sample = Sample("conv2d_grad", inputs, attrs, dict.fromkeys(SLOTS, 1))
    entries = context.kernels.entries("conv2d_grad")
    entry = next(e for e in entries if e.library == library and e.dtype in (dtype, "*"))
    run = run_kernel(entry, sample, n_threads=n_threads)
    return {slot: run.outputs[slot][0].astype("float64") for slot in SLOTS}


@pytest.mark.parametrize("n_threads", [1, 2, 6])
@pytest.mark.parametrize(("x", "weight", "attrs"), CASES)
def test_gradients_in_bfloat16_match_float_sums_rounded_once(x, weight, attrs, n_threads):
    arrays = make_arrays(x, weight, attrs)
    got = compute(arrays, attrs, "bfloat16", "onednn", n_threads)
    wanted = compute(arrays, attrs, "float64", "numpy")
    for slot in SLOTS:
        # The tolerance is half a bfloat16 ulp plus the error of a float sum whose terms may cancel.
        scale = np.abs(wanted[slot]).max()
        np.testing.assert_allclose(got[slot], wanted[slot], rtol=2**-8, atol=scale * 1e-5)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", ["first", "right", "bottom", "last", "inside"])
@pytest.mark.parametrize("slot", ["x", "weight", "out_grad"])
@pytest.mark.parametrize(("x", "weight", "attrs"), CASES)
def test_infinities_and_nan_affect_only_gradients_that_depend_on_them(
    x, weight, attrs, slot, place, special
):
    arrays = make_arrays(x, weight, attrs)
    height, width = (arrays[slot].shape[1:3], arrays[slot].shape[2:])[slot == "weight"]
    at = {
        "first": (0, 0),
        "right": (0, width - 1),
        "bottom": (height - 1, 0),
        "last": (height - 1, width - 1),
        "inside": (height // 2, width // 2),
    }[place]
    index = (1, 1, *at) if slot == "weight" else (1, *at, 1)
    arrays[slot][index] = special
    got = compute(arrays, attrs, "bfloat16", "onednn", 2)
    # For each gradient, count the summed products that contain the special number.
    marks = {name: np.zeros_like(array) for name, array in arrays.items()}
    marks[slot][index] = 1
    ones = {name: np.ones_like(array) for name, array in arrays.items()}
    reached = {name: np.zeros(got[name].shape, bool) for name in SLOTS}
    for name in SLOTS:
        if name != f"{slot}_grad" and not (name == "bias_grad" and slot != "out_grad"):
            sums = compute({**ones, slot: marks[slot]}, attrs, "float64", "numpy")
            reached[name] = sums[name] > 0
    for name in SLOTS:
        np.testing.assert_array_equal(~np.isfinite(got[name]), reached[name], err_msg=name)
