"""Checks images and random streams for augmentation, and converts results to the image dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from opwright.errors import AttributeTypeError, ShapeError
from opwright_nn import checks

Images = npt.NDArray[Any]
Floats = npt.NDArray[np.floating[Any]]


def check_images(who: str, images: object, channels: tuple[int, ...] = ()) -> Images:
    """Return images as a batch, [n, channels, height, width].

    Raises
    ------
    AttributeTypeError
        They are not an array of uint8 or floats.
    ShapeError
        There are not three or four axes, or the number of channels is not in `channels`.
    """
    array = checks.find_array(images)
    if array is None or (array.dtype != np.uint8 and array.dtype.kind != "f"):
        got = type(images).__name__ if array is None else array.dtype
        raise AttributeTypeError(
            f"{who}: images must be uint8 in [0, 255] or floats in [0, 1], got {got}; convert them"
        )
    if array.ndim not in (3, 4):
        raise ShapeError(
            f"{who}: images must be [channels, height, width] or [n, channels, height, width], got "
            f"shape {list(array.shape)}; reshape or transpose them"
        )
    batch = array if array.ndim == 4 else array[None]
    if channels and batch.shape[1] not in channels:
        raise ShapeError(
            f"{who}: images must have {' or '.join(map(str, channels))} channels, got shape "
            f"{list(array.shape)}; transpose images whose channels are last"
        )
    return batch


def check_stream(who: str, rng: object) -> np.random.Generator:
    """Return a random stream."""
    if not isinstance(rng, np.random.Generator):
        raise AttributeTypeError(
            f"{who}: rng must be a numpy.random.Generator, got {rng!r} ({type(rng).__name__}); "
            "take it as map(item, rng), or write np.random.default_rng(0)"
        )
    return rng


def to_float(batch: Images) -> Floats:
    """Return images as floats of at least 32 bits, with unchanged values."""
    return batch.astype(np.result_type(batch.dtype, np.float32), copy=False)


def white(batch: Images) -> float:
    """Return the pixel value of white."""
    return 255.0 if batch.dtype == np.uint8 else 1.0


def as_given(result: npt.NDArray[Any], images: Any, *, nearest: bool = True) -> Images:
    """Return results with the dtype and axes of the images; uint8 is rounded or truncated."""
    given = np.asarray(images)
    if given.dtype == np.uint8 and result.dtype != np.uint8:
        result = np.clip(np.rint(result) if nearest else result, 0, 255)
    return result.reshape(*given.shape[:-3], *result.shape[1:]).astype(given.dtype, copy=False)
