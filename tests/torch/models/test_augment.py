"""Augmentation matches the torchvision functions with the same names."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from model_zoo import load_torchvision

from opwright_nn.datasets import augment


@pytest.fixture(scope="module")
def functions():
    load_torchvision()
    from torchvision.transforms.v2 import functional

    return functional


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("adjust_brightness", (0.0, 0.4, 1.7)),
        ("adjust_contrast", (0.0, 0.4, 1.7)),
        ("adjust_saturation", (0.0, 0.4, 1.7)),
        ("adjust_hue", (-0.5, -0.2, 0.3)),
        ("rotate", (0.0, 17.0, -133.0)),
        ("resize", ((10, 10), (7, 31), (40, 60))),
    ],
)
def test_results_match_torchvision(functions, name, values, dtype):
    images = np.random.default_rng(0).integers(0, 256, (4, 3, 20, 28), np.uint8)
    images = images if dtype == "uint8" else (images / 255).astype(dtype)
    options = {}
    if name == "rotate":
        options["interpolation"] = functions.InterpolationMode.BILINEAR
    for value in values:
        ours = getattr(augment, name)(images, value)
        size = list(value) if name == "resize" else value
        theirs = getattr(functions, name)(torch.from_numpy(images), size, **options).numpy()
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        # uint8 results are rounded here, whereas some torchvision functions truncate.
        atol = 1 if dtype == "uint8" else 5e-6
        np.testing.assert_allclose(ours.astype(float), theirs.astype(float), atol=atol)
