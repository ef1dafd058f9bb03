"""Cut-out and mixup."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from opwright.errors import AttributeValueError, ShapeError
from opwright_nn import arguments, checks
from opwright_nn.datasets.augment.images import (
    Images,
    as_given,
    check_images,
    check_stream,
    to_float,
)


@arguments.suggest
def cutout(
    images: Images,
    rng: np.random.Generator,
    size: int | Sequence[int],
    *,
    p: float = 1.0,
    fill: float = 0.0,
) -> Images:
    """Return images in which a rectangle is filled; its center is anywhere in the image.

    Parameters
    ----------
    images : ndarray of uint8 or floats, [channels, height, width] or [n, channels, height, width]
        The images.
    rng : numpy.random.Generator
        The generator, which draws for each image.
    size : int or two ints, at least 1
        Height and width of the rectangle, which may be partly outside the image.
    p : float in [0, 1]
        The probability that an image gets a rectangle.
    fill : float
        The value of its pixels.

    Returns
    -------
    ndarray
        Shape and dtype of the images.

    References
    ----------
    DeVries and Taylor, Improved Regularization of Convolutional Neural Networks with Cutout, 2017.
    """
    who = "augment.cutout"
    batch = check_images(who, images)
    height, width = checks.check_sizes(who, "size", size, rank=2, at_least=1)
    p = checks.check_float(who, "p", p, at_least=0.0, at_most=1.0)
    value = checks.check_float(who, "fill", fill)
    rng = check_stream(who, rng)
    n, _, rows, columns = batch.shape
    chosen = rng.random((n, 1, 1)) < p
    top = rng.integers(max(rows, 1), size=(n, 1, 1)) - height // 2
    left = rng.integers(max(columns, 1), size=(n, 1, 1)) - width // 2
    y, x = np.arange(rows).reshape(1, -1, 1), np.arange(columns).reshape(1, 1, -1)
    inside = (top <= y) & (y < top + height) & (left <= x) & (x < left + width)
    filled = np.asarray(value).astype(batch.dtype)
    return as_given(np.where((chosen & inside)[:, None], filled, batch), images)


@arguments.suggest
def mixup(
    images: npt.NDArray[np.generic],
    labels: npt.ArrayLike,
    rng: np.random.Generator,
    *,
    alpha: float = 0.2,
    classes: int | None = None,
) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.float32]]:
    """Return ``s * a + (1 - s) * b`` for images and labels a, where b is a shuffled copy of a.

    Losses accept the labels with ``soft_label=True``.

    Parameters
    ----------
    images : ndarray of uint8 or floats, [n, ...]
        A batch of images, or of any other float data.
    labels : array
        Classes, int [n] or [n, 1]; or distributions, float [n, classes].
    rng : numpy.random.Generator
        The generator, which draws the order and one weight s for the batch.
    alpha : float, above 0
        The parameter of the distribution Beta(alpha, alpha) of s.
    classes : int, at least 1
        The number of classes; needed for labels that are classes.

    Returns
    -------
    (ndarray, ndarray)
        Images with unchanged shape and dtype, rounded for uint8, and labels float32 [n, classes].

    References
    ----------
    Zhang, Cissé, Dauphin and Lopez-Paz, mixup: Beyond Empirical Risk Minimization, 2018.
    """
    who = "augment.mixup"
    array = checks.check_numbers(who, "images", images)
    if array.ndim == 0 or (array.dtype != np.uint8 and array.dtype.kind != "f"):
        raise ShapeError(
            f"{who}: images must be uint8 or floats [n, ...], got {array.dtype}"
            f"{list(array.shape)}; convert them"
        )
    soft = _to_soft(who, labels, len(array), classes)
    alpha = checks.check_float(who, "alpha", alpha, above=0.0)
    rng = check_stream(who, rng)
    share, order = rng.beta(alpha, alpha), rng.permutation(len(array))
    floats = to_float(array)
    own, other = floats.dtype.type(share), floats.dtype.type(1 - share)
    mixed = own * floats + other * floats[order]
    if array.dtype == np.uint8:
        mixed = np.rint(mixed)
    weights = np.float32(share), np.float32(1 - share)
    return mixed.astype(array.dtype), weights[0] * soft + weights[1] * soft[order]


def _to_soft(
    who: str, labels: npt.ArrayLike, n: int, classes: int | None
) -> npt.NDArray[np.float32]:
    array = checks.check_numbers(who, "labels", labels)
    if array.dtype.kind == "f" and array.ndim == 2 and len(array) == n:
        return array.astype(np.float32)
    if array.dtype.kind not in "iu" or array.shape not in ((n,), (n, 1)):
        raise ShapeError(
            f"{who}: labels must be ints [{n}] or [{n}, 1], or floats [{n}, classes], got "
            f"{array.dtype}{list(array.shape)}; reshape them"
        )
    count = checks.check_int(who, "classes", classes, at_least=1)
    if array.size and not 0 <= array.min() <= array.max() < count:
        raise AttributeValueError(
            f"{who}: labels must be in [0, {count}), got {array.min()} to {array.max()}; pass "
            "the number of classes"
        )
    soft: npt.NDArray[np.float32] = np.eye(count, dtype=np.float32)[array.reshape(-1)]
    return soft
