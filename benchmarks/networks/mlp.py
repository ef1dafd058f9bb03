"""784-200-200-10, sigmoid, softmax: parameters and a batch, the same for every contestant."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

SIZES = (784, 200, 200, 10)
LEARNING_RATE = 0.1
STEPS_TO_COMPARE = 20

Arrays = list[np.ndarray]


def make_parameters() -> Arrays:
    """Return w [in, out] and b [out] of each layer, float32."""
    rng = np.random.default_rng(7)
    arrays: Arrays = []
    for fan_in, fan_out in pairwise(SIZES):
        bound = np.sqrt(6.0 / (fan_in + fan_out))
        arrays.append(rng.uniform(-bound, bound, (fan_in, fan_out)).astype("float32"))
        arrays.append(np.zeros(fan_out, "float32"))
    return arrays


def make_batch(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return images float32 [size, 784] in [0, 1) and labels int64 [size, 1]."""
    rng = np.random.default_rng(8)
    images = rng.random((size, SIZES[0]), dtype="float32")
    return images, rng.integers(0, SIZES[-1], (size, 1))
