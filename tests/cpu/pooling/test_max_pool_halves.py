"""Max pooling of 16-bit floats compares bits, with the same results as float32 comparisons."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

import opwright as ow
from opwright_kit.testing import Sample, run_kernel

KINDS = [np.dtype("float16"), np.dtype(ml_dtypes.bfloat16)]
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1.0, -1.0, 6e-8, -6e-8)


def images(kind: np.dtype, n_channels: int) -> np.ndarray:
    """Return images of 1 x 3 pixels with all triples of special numbers."""
    triples = np.array(list(itertools.product(SPECIAL, repeat=3)), kind)
    rows = -len(triples) % n_channels
    filled = np.concatenate([triples, np.zeros((rows, 3), kind)])
    return filled.reshape(-1, n_channels, 1, 3)


def pool(x: np.ndarray, data_format: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the maximum of each image and its position, computed by the max_pool2d kernel."""
    definition = ow.current_context().ops.get("max_pool2d").proto
    attrs = definition.fill_attrs({"kernel": [1, 3], "data_format": data_format})
    entries = ow.current_context().kernels.entries("max_pool2d")
    entry = next(e for e in entries if (e.library, e.dtype) == ("onednn", str(x.dtype)))
    sample = Sample("max_pool2d", {"x": (x,)}, attrs, {"out": 1, "index": 1})
    outputs = run_kernel(entry, sample).outputs
    return outputs["out"][0], outputs["index"][0]


@pytest.mark.parametrize("n_channels", [1, 3, 16, 17])
@pytest.mark.parametrize("data_format", ["NCHW", "NHWC"])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_maxima_and_indices_of_special_numbers_match_float32(kind, data_format, n_channels):
    x = images(kind, n_channels)
    if data_format == "NHWC":
        x = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    out, index = pool(x, data_format)
    wide, places = pool(x.astype("float32"), data_format)
    np.testing.assert_array_equal(index, places)
    np.testing.assert_array_equal(out.astype("float32"), wide)
    np.testing.assert_array_equal(np.signbit(out), np.signbit(wide))
