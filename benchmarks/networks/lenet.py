"""LeNet: conv 20 5×5, max_pool 2, conv 50 5×5, max_pool 2, fc 500 relu, fc 10; with a batch."""

from __future__ import annotations

import numpy as np

LEARNING_RATE = 1e-3
BATCH = 64
STEPS_TO_COMPARE = 5

# Weight [out, in, ...] and bias of each layer; the flattened images before fc 500 are 50·4·4.
SHAPES = ((20, 1, 5, 5), (50, 20, 5, 5), (500, 800), (10, 500))


def make_parameters() -> list[np.ndarray]:
    """Return weight [out, in, …] and bias [out] of each layer, float32."""
    rng = np.random.default_rng(17)
    arrays = []
    for shape in SHAPES:
        bound = np.sqrt(3.0 / np.prod(shape[1:]))
        arrays.append(rng.uniform(-bound, bound, shape).astype("float32"))
        arrays.append(rng.uniform(-0.1, 0.1, shape[0]).astype("float32"))
    return arrays


def make_batch() -> tuple[np.ndarray, np.ndarray]:
    """Return images float32 [64, 1, 28, 28] in [0, 1) and labels int64 [64, 1]."""
    rng = np.random.default_rng(18)
    return rng.random((BATCH, 1, 28, 28), dtype="float32"), rng.integers(0, 10, (BATCH, 1))
