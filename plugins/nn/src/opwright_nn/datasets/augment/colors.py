"""Colors: brightness, contrast, saturation and hue, like the torchvision functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from opwright.errors import AttributeValueError, ShapeError
from opwright_nn import arguments, checks
from opwright_nn.datasets.augment.images import (
    Floats,
    Images,
    as_given,
    check_images,
    check_stream,
    to_float,
    white,
)

Factors = float | npt.ArrayLike

_GRAY = (0.2989, 0.587, 0.114)


@arguments.suggest
def color_jitter(
    images: Images,
    rng: np.random.Generator,
    *,
    brightness: float = 0.0,
    contrast: float = 0.0,
    saturation: float = 0.0,
    hue: float = 0.0,
) -> Images:
    """Return images with brightness, contrast, saturation and hue changed in a random order.

    Parameters
    ----------
    images : ndarray of uint8 or floats, [channels, height, width] or [n, channels, height, width]
        Images of 1 or 3 channels.
    rng : numpy.random.Generator
        The generator, which draws for each image; the order is the same for all images.
    brightness, contrast, saturation : float, at least 0
        Factors are uniform in [max(0, 1 - x), 1 + x].
    hue : float in [0, 0.5]
        Hues are shifted by a fraction of the color circle, uniform in [-hue, hue].

    Returns
    -------
    ndarray
        The images, with unchanged shape and dtype.
    """
    who = "augment.color_jitter"
    n = len(check_images(who, images, (1, 3)))
    rng = check_stream(who, rng)
    changes = [
        (adjust_brightness, "brightness", brightness),
        (adjust_contrast, "contrast", contrast),
        (adjust_saturation, "saturation", saturation),
    ]
    steps: list[tuple[Any, Any]] = []
    for adjust, name, value in changes:
        if reach := checks.check_float(who, name, value, at_least=0.0):
            steps.append((adjust, rng.uniform(max(0.0, 1 - reach), 1 + reach, n)))
    if reach := checks.check_float(who, "hue", hue, at_least=0.0, at_most=0.5):
        steps.append((adjust_hue, rng.uniform(-reach, reach, n)))
    for index in rng.permutation(len(steps)):
        adjust, numbers = steps[index]
        images = adjust(images, numbers)
    return images


@arguments.suggest
def adjust_brightness(images: Images, factors: Factors) -> Images:
    """Return images multiplied by factors, clipped at white; uint8 results are truncated.

    Parameters
    ----------
    images : ndarray of uint8 or floats, [channels, height, width] or [n, channels, height, width]
        Images of 1 or 3 channels.
    factors : float or array, [n], at least 0
        One factor for all images, or one for each.

    Returns
    -------
    ndarray
        The images, with unchanged shape and dtype.
    """
    return _blend("augment.adjust_brightness", images, factors, lambda floats: 0.0)


@arguments.suggest
def adjust_contrast(images: Images, factors: Factors) -> Images:
    """Return ``factor * image + (1 - factor) * m``, where m is the mean of the image in gray.

    Arguments and result are the same as for `adjust_brightness`.
    """

    def mean(floats: Floats) -> Any:
        return _to_gray(floats, images).mean(axis=(1, 2, 3), keepdims=True)

    return _blend("augment.adjust_contrast", images, factors, mean)


@arguments.suggest
def adjust_saturation(images: Images, factors: Factors) -> Images:
    """Return ``factor * image + (1 - factor) * gray``; images with one channel do not change.

    Arguments and result are as in `adjust_brightness`.
    """
    who = "augment.adjust_saturation"
    if check_images(who, images, (1, 3)).shape[1] == 1:
        return np.array(images)
    return _blend(who, images, factors, lambda floats: _to_gray(floats, images))


@arguments.suggest
def adjust_hue(images: Images, shifts: Factors) -> Images:
    """Return images whose hues are shifted by a fraction of the color circle.

    Parameters
    ----------
    images : ndarray of uint8 or floats, [channels, height, width] or [n, channels, height, width]
        Images with 3 channels; images with 1 channel do not change.
    shifts : float or array, [n], in [-0.5, 0.5]
        One shift for all images, or one for each.

    Returns
    -------
    ndarray
        Shape and dtype of the images; uint8 is rounded.
    """
    who = "augment.adjust_hue"
    batch = check_images(who, images, (1, 3))
    moved = _check_factors(who, "shifts", shifts, len(batch), -0.5, 0.5)
    if batch.shape[1] == 1:
        return np.array(images)
    floats = to_float(batch)
    red, green, blue = np.moveaxis(floats, 1, 0)
    value = floats.max(axis=1)
    chroma = value - floats.min(axis=1)
    divisor = np.where(chroma == 0, 1, chroma)
    sector = np.where(
        value == red,
        (green - blue) / divisor,
        np.where(value == green, 2 + (blue - red) / divisor, 4 + (red - green) / divisor),
    )
    sector = sector + 6 * moved[:, 0].astype(floats.dtype)
    # The channel n is value - chroma * clip(min(k, 4 - k), 0, 1) with k = (n + sector) mod 6.
    places = (np.array([5, 3, 1], floats.dtype).reshape(1, 3, 1, 1) + sector[:, None]) % 6
    share = np.clip(np.minimum(places, 4 - places), 0, 1)
    return as_given(value[:, None] - chroma[:, None] * share, images)


def _to_gray(floats: Floats, images: Any) -> Floats:
    if floats.shape[1] == 1:
        return floats
    weights = np.array(_GRAY, floats.dtype).reshape(1, 3, 1, 1)
    gray: Floats = (floats * weights).sum(axis=1, keepdims=True, dtype=floats.dtype)
    return np.floor(gray) if np.asarray(images).dtype == np.uint8 else gray


def _blend(who: str, images: Any, factors: Any, other: Any) -> Images:
    batch = check_images(who, images, (1, 3))
    shares = _check_factors(who, "factors", factors, len(batch), 0.0, None)
    floats = to_float(batch)
    shares = shares.astype(floats.dtype)
    mixed = floats * shares + (1 - shares) * other(floats)
    return as_given(np.clip(mixed, 0, white(batch)), images, nearest=False)


def _check_factors(
    who: str, name: str, factors: Any, n: int, low: float, high: float | None
) -> npt.NDArray[np.float64]:
    """Return factors as [n or 1, 1, 1, 1]."""
    array = checks.check_numbers(who, name, factors).astype(np.float64)
    if array.shape not in ((), (n,)):
        raise ShapeError(
            f"{who}: {name} must be a number, or one for each of {n} images, got shape "
            f"{list(array.shape)}; pass an array [{n}]"
        )
    if not (
        np.isfinite(array) & (array >= low) & (array <= (np.inf if high is None else high))
    ).all():
        rule = f"finite, of at least {low:g}" if high is None else f"in [{low:g}, {high:g}]"
        raise AttributeValueError(f"{who}: {name} must be {rule}, got {factors!r}; change them")
    return array.reshape(-1, 1, 1, 1)
