"""pad: makes one array of sequences of different lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from opwright.errors import AttributeTypeError, AttributeValueError, ShapeError
from opwright_nn import arguments, checks

_MAX_SHOWN = 60


@arguments.suggest
def pad(
    sequences: Sequence[Any], *, length: int | None = None, value: float = 0
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Return sequences as one array, filled up behind their ends, and how long each is.

    ::

        words, lengths = nn.datasets.pad([[4, 1, 7], [2]])  # [[4, 1, 7], [2, 0, 0]], [3, 1]

    Layers for sequences take both: ``model.lstm(words, 64, lengths="lengths")``.

    Parameters
    ----------
    sequences : sequence of array
        Each [time, …], of one dtype and one shape behind the axis of time. Lists of whole numbers
        are int64, other lists of numbers float32.
    length : int, at least 1, optional
        The axis of time of the result: longer sequences lose their ends. By default the longest
        sequence fits.
    value : number
        What is behind the ends, of the dtype of the sequences.

    Returns
    -------
    padded : ndarray, [n, length, …]
        The sequences.
    lengths : ndarray, int64 [n]
        How many times of each are its own.

    Raises
    ------
    AttributeTypeError, AttributeValueError, ShapeError
        There is no sequence, they differ, or the dtype does not hold the value.
    """
    if isinstance(sequences, str | bytes) or not isinstance(sequences, Sequence):
        raise AttributeTypeError(
            f"pad: sequences must be a list of sequences, got {type(sequences).__name__}; pass "
            "[[4, 1, 7], [2]], for example"
        )
    limit = None if length is None else checks.check_int("pad", "length", length, at_least=1)
    arrays = [_as_array(i, sequence)[:limit] for i, sequence in enumerate(sequences)]
    if not arrays:
        raise AttributeValueError("pad: sequences must hold at least one, got none; pass a list")
    first = next((array for array in arrays if len(array)), arrays[0])
    for i, array in enumerate(arrays):
        same = (array.dtype, array.shape[1:]) == (first.dtype, first.shape[1:])
        if len(array) and not same:
            raise ShapeError(
                "pad: sequences must have one dtype and one shape behind the axis of time, got "
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
    try:
        array = np.asarray(sequence)
    except ValueError:
        array = np.asarray(None)
    if array.ndim == 0 or array.dtype.kind not in "biuf":
        raise AttributeTypeError(
            f"pad: each sequence must be numbers with an axis of time, got "
            f"{repr(sequence)[:_MAX_SHOWN]} for sequence {number}; number the words first, for "
            "example"
        )
    if array.dtype == np.float64 and not isinstance(sequence, np.ndarray):
        return array.astype(np.float32)
    return array


def _fill(value: object, dtype: np.dtype[Any]) -> Any:
    fill = np.asarray(value)
    if fill.ndim or fill.dtype.kind not in "biuf" or (filled := fill.astype(dtype)) != fill:
        raise AttributeValueError(
            f"pad: value must be a number that {dtype} holds, got {value!r}; choose another one"
        )
    return filled
