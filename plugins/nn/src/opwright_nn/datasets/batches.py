"""Batches out of arrays: shuffled by a seed, with a progress bar where a person is looking."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from opwright.errors import AttributeTypeError, AttributeValueError, ShapeError
from opwright_nn import checks

Arrays = tuple[npt.NDArray[Any], ...]

_KEYS: Final = frozenset(
    {"epoch", "batch", "size", "seed", "shuffle", "drop_last", "arrays", "order_crc32"}
)


class Batches(Iterator[Arrays]):
    """What `batches` returns: an iterator that knows where it is, and goes on from anywhere."""

    def __init__(
        self,
        arrays: Arrays,
        size: int,
        epochs: int,
        seed: int | None,
        drop_last: bool,
        progress: bool,
    ) -> None:
        rows = len(arrays[0])
        stop = rows - size + 1 if drop_last else rows
        self._arrays = arrays
        self._starts = range(0, max(stop, 0), size)
        self._epochs = epochs
        self._seed = seed
        self._drop_last = drop_last
        self._progress = progress
        self._described: tuple[int, int | None] | None = None
        self._begin(0)

    def _begin(self, given: int) -> None:
        self._given = given
        found = self._iterate(given)
        total = self._epochs * len(self._starts)
        self._batches = _show_progress(found, given, total) if self._progress else found

    def __next__(self) -> Arrays:
        batch = next(self._batches)
        self._given += 1
        return batch

    @property
    def position(self) -> dict[str, Any]:
        """Where the next batch is, and what it depends on; `restore` takes it.

        A dict of numbers and text: ``epoch`` and ``batch`` count from 0; the other entries say how
        the batches were made, so that others are not taken for them.
        """
        epoch, batch = divmod(self._given, max(len(self._starts), 1))
        return {"epoch": epoch, "batch": batch, **self._describe(epoch)}

    def _describe(self, epoch: int) -> dict[str, Any]:
        """What the batches of an epoch depend on."""
        if self._described is None or self._described[0] != epoch:
            order = self._order(epoch)
            checksum = None if order is None else zlib.crc32(order.astype("<i8").tobytes())
            self._described = epoch, checksum
        return {
            "size": self._starts.step,
            "seed": self._seed,
            "shuffle": self._seed is not None,
            "drop_last": self._drop_last,
            "arrays": [f"{array.dtype.name}{list(array.shape)}" for array in self._arrays],
            "order_crc32": self._described[1],
        }

    def restore(self, position: object) -> None:
        """Go on from a `position`, of this run or an earlier one; ``epochs`` may have changed.

        Raises
        ------
        AttributeTypeError, AttributeValueError
            Where it is no position, or one of other batches: made with another size, seed or
            shape of the data, or shuffled otherwise by another release of NumPy.
        """
        who = "batches.restore"
        if not isinstance(position, Mapping) or position.keys() != _KEYS:
            raise AttributeTypeError(
                f"{who}: position must be what `position` gave, got {position!r}"
            )
        epoch = checks.check_int(who, "epoch", position["epoch"], at_least=0)
        batch = checks.check_int(who, "batch", position["batch"], at_least=0)
        other = [
            f"{name}={position[name]!r} instead of {own!r}"
            for name, own in self._describe(epoch).items()
            if position[name] != own
        ]
        if other:
            raise AttributeValueError(
                f"{who}: position must be of batches that are made as these are, got "
                f"{', '.join(other)}; make them as they were"
            )
        given = epoch * len(self._starts) + batch
        if batch >= max(len(self._starts), 1) or given > self._epochs * len(self._starts):
            raise AttributeValueError(
                f"{who}: position must be within {self._epochs} epochs of {len(self._starts)} "
                f"batches, got batch {batch} of epoch {epoch}; make them with more epochs"
            )
        self._begin(given)

    def _order(self, epoch: int) -> npt.NDArray[np.int64] | None:
        """The rows of an epoch, None where they come as they lie."""
        if self._seed is None:
            return None
        # A generator per epoch: epoch 7 of a long run is epoch 7 of a short one.
        return np.random.default_rng((self._seed, epoch)).permutation(len(self._arrays[0]))

    def _iterate(self, given: int) -> Iterator[Arrays]:
        first_epoch, skipped = divmod(given, max(len(self._starts), 1))
        for epoch in range(first_epoch, self._epochs):
            rows = self._order(epoch)
            for start in self._starts[skipped:]:
                part = slice(start, start + self._starts.step)
                pick = part if rows is None else rows[part]
                yield tuple(array[pick] for array in self._arrays)
            skipped = 0


def batches(
    data: Sequence[npt.ArrayLike],
    size: int,
    *,
    epochs: int = 1,
    seed: int = 0,
    shuffle: bool = True,
    drop_last: bool = False,
    progress: bool = False,
) -> Batches:
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
    Batches
        An iterator of tuples with one array [size, …] for each in `data`. `Model.save` and
        `Model.resume` take it, to go on where a run was ended.

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
    progress = checks.check_bool("batches", "progress", progress)
    return Batches(arrays, size, epochs, seed if shuffle else None, drop_last, progress)


def _show_progress(found: Iterator[Arrays], given: int, total: int) -> Iterator[Arrays]:
    # 30 ms to import, and only those who ask for a bar need it.
    from tqdm import tqdm  # type: ignore[import-untyped]

    # disable=None: no bar where standard error is no terminal, such as in a log file.
    yield from tqdm(found, initial=given, total=total, unit=" batches", disable=None)


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
