"""Dataset: a pair of arrays, images and their labels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from opwright_nn import arguments


@arguments.suggest
class Dataset(NamedTuple):
    """Images and their classes; unpacks as ``images, labels = dataset``.

    Attributes
    ----------
    images : ndarray of float32, [n, …]
        In [0, 1].
    labels : ndarray of int64, [n] or [n, 1]
        The class of each image.
    """

    images: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int64]
