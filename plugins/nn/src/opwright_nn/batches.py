"""Batches out of arrays: shuffled by a seed, with a progress bar where a person is looking."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from opwright.errors import AttributeTypeError, ShapeError

from . import checks

Arrays = tuple[npt.NDArray[Any], ...]


def batches(
    data: Sequence[npt.ArrayLike],
    size: int,
    *,
    epochs: int = 1,
    seed: int = 0,
    shuffle: bool = True,
    drop_last: bool = False,
    progress: bool = False,
) -> Iterator[Arrays]:
    """Iterate over `data` in batches: ``for images, labels in batches(train, size=64): ...``.

    Parameters
    ----------
    data : sequence of arrays
        Each [n, …] with the same n, such as a `Dataset`.
    size : int, at least 1
        Rows in a batch. The last one of an epoch has fewer where n is no multiple.
    epochs : int, at least 0
        How many times each row is given.
    seed : int, at least 0
        The order of the rows; each epoch has its own. The same seed gives the same order.
    shuffle : bool
        False gives the rows as they lie, without a copy.
    drop_last : bool
        True leaves out a last batch with fewer than `size` rows.
    progress : bool
        True shows a bar on standard error if that is a terminal.

    Returns
    -------
    iterator of tuples of arrays
        One array [size, …] for each in `data`.

    Raises
    ------
    AttributeTypeError, AttributeValueError, ShapeError
        At the call, before the first batch is asked for.
    """
    arrays = _check_data(data)
    size = checks.check_int("batches", "size", size, at_least=1)
    epochs = checks.check_int("batches", "epochs", epochs, at_least=0)
    seed = checks.check_int("batches", "seed", seed, at_least=0)
    shuffle = checks.check_bool("batches", "shuffle", shuffle)
    drop_last = checks.check_bool("batches", "drop_last", drop_last)
    rows = len(arrays[0])
    stop = rows - size + 1 if drop_last else rows
    starts = range(0, max(stop, 0), size)
    found = _iterate(arrays, starts, size, epochs, seed if shuffle else None)
    if checks.check_bool("batches", "progress", progress):
        return _show_progress(found, epochs * len(starts))
    return found


def _iterate(
    arrays: Arrays, starts: range, size: int, epochs: int, seed: int | None
) -> Iterator[Arrays]:
    for epoch in range(epochs):
        # A generator per epoch: epoch 7 of a long run is epoch 7 of a short one.
        order = None if seed is None else np.random.default_rng((seed, epoch))
        rows = None if order is None else order.permutation(len(arrays[0]))
        for start in starts:
            part = slice(start, start + size)
            pick = part if rows is None else rows[part]
            yield tuple(array[pick] for array in arrays)


def _show_progress(found: Iterator[Arrays], total: int) -> Iterator[Arrays]:
    # 30 ms to import, and only those who ask for a bar need it.
    from tqdm import tqdm  # type: ignore[import-untyped]

    # disable=None: no bar where standard error is no terminal, such as in a log file.
    yield from tqdm(found, total=total, unit=" batches", disable=None)


def _check_data(data: Sequence[npt.ArrayLike]) -> Arrays:
    if isinstance(data, np.ndarray | str | bytes) or not isinstance(data, Sequence):
        raise AttributeTypeError(
            "batches: data must be a tuple or list of arrays, got "
            f"{type(data).__name__}; a single array goes into a tuple: (array,)"
        )
    arrays = tuple(np.asarray(array) for array in data)
    if not arrays or any(array.ndim == 0 for array in arrays):
        raise ShapeError(
            "batches: data must hold at least one array, each with an axis of rows, got shapes "
            f"{[list(array.shape) for array in arrays]}; give arrays of shape [n, ...]"
        )
    if len({len(array) for array in arrays}) > 1:
        raise ShapeError(
            "batches: all arrays of data must have the same number of rows, got shapes "
            f"{[list(array.shape) for array in arrays]}; give one row of each per sample"
        )
    return arrays
