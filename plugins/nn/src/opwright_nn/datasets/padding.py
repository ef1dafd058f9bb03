"""pad: combines sequences of different lengths into one array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from opwright.errors import AttributeTypeError, AttributeValueError, ShapeError
from opwright_nn import arguments, checks

MAX_LENGTH = 2**31 - 1

_MAX_SHOWN = 60


@arguments.suggest
def pad(
    sequences: Sequence[Any], *, length: int | None = None, value: float = 0
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Return sequences as one array, padded at their ends, and their lengths.

    ::

        words, lengths = nn.datasets.pad([[4, 1, 7], [2]])  # [[4, 1, 7], [2, 0, 0]], [3, 1]

    Layers for sequences accept both results: ``model.lstm(words, 64, lengths="lengths")``.

    Parameters
    ----------
    sequences : sequence of array
        Each [time, …], with equal dtypes and equal shapes after the time axis. Lists of integers
        become int64, other lists of numbers float32.
    length : int in [1, 2³¹), optional
        The length of the result's time axis: longer sequences are truncated. By default the longest
        sequence fits.
    value : number
        The padding after the ends. Sequences of floats get the nearest number of their dtype, which
        may be NaN or infinity; an integer dtype must be able to represent the value.

    Returns
    -------
    padded : ndarray, [n, length, …]
        The sequences.
    lengths : ndarray, int64 [n]
        The lengths of the sequences.

    Raises
    ------
    AttributeTypeError, AttributeValueError, ShapeError
        There is no sequence, they differ, or the dtype cannot represent the value.
    """
    if isinstance(sequences, str | bytes) or not isinstance(sequences, Sequence):
        raise AttributeTypeError(
            f"pad: sequences must be a list of sequences, got {type(sequences).__name__}; pass "
            "[[4, 1, 7], [2]], for example"
        )
    limit = length
    if limit is not None:
        limit = checks.check_int("pad", "length", length, at_least=1, at_most=MAX_LENGTH)
    arrays = [_as_array(i, sequence)[:limit] for i, sequence in enumerate(sequences)]
    if not arrays:
        raise AttributeValueError("pad: sequences must hold at least one, got none; pass a list")
    first = next((array for array in arrays if len(array)), arrays[0])
    for i, array in enumerate(arrays):
        same = (array.dtype, array.shape[1:]) == (first.dtype, first.shape[1:])
        if len(array) and not same:
            raise ShapeError(
                "pad: sequences must have one dtype and one shape after the time axis, got "
                f"{first.dtype}{list(first.shape)} and for sequence {i} "
                f"{array.dtype}{list(array.shape)}; convert them first"
            )
    lengths = np.array([len(array) for array in arrays], np.int64)
    columns = int(lengths.max()) if limit is None else limit
    padded = np.full((len(arrays), columns, *first.shape[1:]), _fill(value, first.dtype))
    for row, array in zip(padded, arrays, strict=True):
        row[: len(array)] = array.reshape(len(array), *first.shape[1:])
    return padded, lengths


def _as_array(number: int, sequence: object) -> npt.NDArray[Any]:
    array = checks.find_array(sequence)
    if array is None or array.ndim == 0 or array.dtype.kind not in "biuf":
        raise AttributeTypeError(
            f"pad: each sequence must be numbers with a time axis, got "
            f"{repr(sequence)[:_MAX_SHOWN]} for sequence {number}; convert words to numbers first, "
            "for example"
        )
    if array.dtype != np.float64 or isinstance(sequence, np.ndarray):
        return array
    single = _to_float(array, np.dtype(np.float32))
    if single is None:
        raise AttributeValueError(
            f"pad: numbers of lists must be within the range of float32, got "
            f"{repr(sequence)[:_MAX_SHOWN]} for sequence {number}; pass arrays of float64"
        )
    return single


def _fill(value: object, dtype: np.dtype[Any]) -> Any:
    """Return the value in a dtype: the nearest float, or exactly the same integer."""
    fill = np.asarray(value)
    filled = None
    if fill.ndim == 0 and fill.dtype.kind in "biuf":
        filled = _to_float(fill, dtype) if dtype.kind == "f" else _to_whole(fill, dtype)
    if filled is None:
        raise AttributeValueError(
            f"pad: value must be representable in {dtype}, got {value!r}; choose another value"
        )
    return filled


def _to_float(numbers: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any] | None:
    """Return the nearest numbers of a float dtype, or None if a finite number is out of range."""
    with np.errstate(over="ignore"):
        nearest = numbers.astype(dtype)
    return nearest if (np.isfinite(nearest) == np.isfinite(numbers)).all() else None


def _to_whole(number: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any] | None:
    """Return a number in an integer or bool dtype, or None if the dtype cannot represent it."""
    with np.errstate(invalid="ignore"):
        whole = number.astype(dtype)
    return whole if whole == number else None
