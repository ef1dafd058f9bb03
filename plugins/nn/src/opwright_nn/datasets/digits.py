"""The UCI handwritten digits: 1,797 images of 8×8 in ten classes, shipped with the package.

Source: E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning
Repository, 1998, https://doi.org/10.24432/C50P49, license CC BY 4.0. The images are the test part
of the data set, as scikit-learn ships it, stored as gzipped IDX files and otherwise unchanged.
"""

from __future__ import annotations

import math
import pathlib

import numpy as np

from opwright_nn import arguments, checks
from opwright_nn.datasets import idx
from opwright_nn.datasets.dataset import Dataset

__all__ = ["load"]

_FOLDER = pathlib.Path(__file__).parent / "data"
_WHITE = 16  # each pixel is the number of dark points in a 4×4 square


@arguments.suggest
def load(seed: int = 1, test_fraction: float = 0.2) -> tuple[Dataset, Dataset]:
    """Return the digits, shuffled and split: ``train, test = load()``.

    Parameters
    ----------
    seed : int, at least 0
        The seed of the split. The same seed gives the same split on every machine.
    test_fraction : float in (0, 1)
        The fraction of the 1,797 images in the test set; their number is rounded up.

    Returns
    -------
    (Dataset, Dataset)
        The training set and the test set. Images are float32 [n, 64] in [0, 1], labels int64
        [n, 1] in 0..9. No image is in both.
    """
    checks.check_int("digits.load", "seed", seed, at_least=0)
    checks.check_float("digits.load", "test_fraction", test_fraction, above=0.0, below=1.0)
    images = idx.read(_FOLDER / "digits-images.idx3.gz").astype(np.float32)
    images /= _WHITE
    labels = idx.read(_FOLDER / "digits-labels.idx1.gz").astype(np.int64)
    n_test = min(math.ceil(len(images) * test_fraction), len(images) - 1)
    order = np.random.default_rng(seed).permutation(len(images))
    images, labels = images.reshape(len(images), -1)[order], labels.reshape(-1, 1)[order]
    return (
        Dataset(images[n_test:].copy(), labels[n_test:].copy()),
        Dataset(images[:n_test].copy(), labels[:n_test].copy()),
    )
