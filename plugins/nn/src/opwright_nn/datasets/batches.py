"""batches: iterates over arrays in shuffled batches, like PyTorch's `DataLoader`."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar, overload

import numpy as np
import numpy.typing as npt

from opwright.errors import AttributeTypeError, AttributeValueError, ShapeError
from opwright_nn import arguments, checks
from opwright_nn.datasets.position import POSITION_FIELDS
from opwright_nn.datasets.samples import Map, check_map
from opwright_nn.datasets.sharing import WHOLE, Share, find_share

Arrays = tuple[npt.NDArray[Any], ...]
NamedArrays = dict[str, npt.NDArray[Any]]
Batch = TypeVar("Batch", Arrays, NamedArrays)


class Batches(Iterator[Batch], Generic[Batch]):
    """The iterator that `batches` returns; it can continue from any position.

    A loop started after the last batch iterates over the next epochs, each in a different order.
    ``len`` is always the number of batches in an epoch, whatever the position.
    """

    def __init__(
        self,
        arrays: Arrays,
        names: tuple[str, ...] | None,
        size: int,
        first_epoch: int,
        epochs: int,
        seed: int | None,
        drop_last: bool,
        progress: bool,
        share: Share = WHOLE,
        map: Map | None = None,
        map_batch: Map | None = None,
    ) -> None:
        rows = len(arrays[0])
        stop = rows - size + 1 if drop_last else rows
        self._arrays = arrays
        self._share = share
        self._map = map
        self._map_batch = map_batch
        self._names = names
        self._starts = range(0, max(stop, 0), size)
        self._epochs = epochs
        self._end_epoch = first_epoch + epochs
        self._seed = seed
        self._drop_last = drop_last
        self._progress = progress
        self._description: tuple[int, int | None] | None = None
        self._begin(first_epoch * len(self._starts))

    def _begin(self, first: int) -> None:
        self._next = first
        self._ended = False
        iterator: Iterator[Batch] = self._iterate(first)
        total = self._end_epoch * len(self._starts)
        self._batches: Iterator[Batch]
        self._batches = _show_progress(iterator, first, total) if self._progress else iterator

    def __repr__(self) -> str:
        rows, size = len(self._arrays[0]), self._starts.step
        epochs = f"{self._epochs} epochs of {self.per_epoch}"
        return f"Batches({rows} rows in batches of {size}, {epochs})"

    def __len__(self) -> int:
        return self._epochs * len(self._starts)

    @property
    def per_epoch(self) -> int:
        """The number of batches in an epoch."""
        return len(self._starts)

    def __iter__(self) -> Iterator[Batch]:
        if self._ended:
            first = self._end_epoch * len(self._starts)
            self._end_epoch += self._epochs
            self._begin(first)
        return self

    def __next__(self) -> Batch:
        try:
            batch = next(self._batches)
        except StopIteration:
            self._ended = True
            raise
        except BaseException:
            self._begin(self._next)  # the same batch, and not the end
            raise
        self._next += 1
        return batch

    @arguments.suggest
    def repeat(self, epochs: int) -> Batches[Batch]:
        """Return the same batches from epoch 0, for a number of epochs, without a progress bar."""
        epochs = checks.check_int("batches.repeat", "epochs", epochs, at_least=0)
        options = self._options(epochs)
        return Batches(self._arrays, self._names, self._starts.step, seed=self._seed, **options)

    def _options(self, epochs: int) -> dict[str, Any]:
        """Return the constructor options for a copy of these batches."""
        options: dict[str, Any] = {"first_epoch": 0, "epochs": epochs, "progress": False}
        options |= {"drop_last": self._drop_last, "share": self._share}
        return options | {"map": self._map, "map_batch": self._map_batch}

    @property
    def is_shared(self) -> bool:
        """Whether this process gets only its shard of each batch."""
        return self._share.size > 1

    def whole(self) -> Batches[Batch]:
        """Return the complete batches of one epoch, ignoring the shard of this process."""
        twin = self.repeat(1)
        twin._share = WHOLE
        twin._begin(0)
        return twin

    @property
    def position(self) -> dict[str, Any]:
        """The position of the next batch, and the properties that it depends on, for `restore`.

        The value is a dict of numbers and strings. ``epoch`` and ``batch`` count from 0; the other
        entries describe the batches so that `restore` can detect different batches.
        """
        epoch, batch = divmod(self._next, max(len(self._starts), 1))
        return {"epoch": epoch, "batch": batch, **self._describe(epoch)}

    def _describe(self, epoch: int) -> dict[str, Any]:
        """Return the properties that determine the batches of an epoch."""
        if self._description is None or self._description[0] != epoch:
            order = self._order(epoch)
            checksum = None if order is None else zlib.crc32(order.astype("<i8").tobytes())
            self._description = epoch, checksum
        maps = (self._map, self._map_batch)
        return {
            "size": self._starts.step,
            "seed": next((map.seed for map in maps if map and map.seed is not None), self._seed),
            "shuffle": self._seed is not None,
            "drop_last": self._drop_last,
            "arrays": [self._describe_array(i) for i in range(len(self._arrays))],
            "order_crc32": self._description[1],
        }

    def _describe_array(self, index: int) -> str:
        array = self._arrays[index]
        name = "" if self._names is None else f"{self._names[index]}: "
        return f"{name}{array.dtype.name}{list(array.shape)}"

    @arguments.suggest
    def restore(self, position: object) -> None:
        """Continue from a `position` of this or an earlier run; ``epochs`` may differ.

        Raises
        ------
        AttributeTypeError, AttributeValueError
            The value is not a position, or comes from different batches: with a different size,
            seed or data shape, or in a different order due to a different release of NumPy.
        """
        who = "batches.restore"
        if not isinstance(position, Mapping) or position.keys() != POSITION_FIELDS.keys():
            raise AttributeTypeError(
                f"{who}: position must be a value of `position`, got {position!r}; pass "
                "batches.position"
            )
        epoch = checks.check_int(who, "epoch", position["epoch"], at_least=0)
        batch = checks.check_int(who, "batch", position["batch"], at_least=0)
        differences = [
            f"{name}={position[name]!r} instead of {own!r}"
            for name, own in self._describe(epoch).items()
            if position[name] != own
        ]
        if differences:
            raise AttributeValueError(
                f"{who}: position must come from batches with the same arguments, got "
                f"{', '.join(differences)}; create them as before"
            )
        first = epoch * len(self._starts) + batch
        if batch >= max(len(self._starts), 1) or first > self._end_epoch * len(self._starts):
            raise AttributeValueError(
                f"{who}: position must be within {self._end_epoch} epochs of {len(self._starts)} "
                f"batches, got batch {batch} of epoch {epoch}; create them with more epochs"
            )
        self._begin(first)

    def _order(self, epoch: int) -> npt.NDArray[np.int64] | None:
        """Return the order of the rows in an epoch, or None without shuffling."""
        return make_order(self._seed, epoch, len(self._arrays[0]))

    def _iterate(self, first: int) -> Iterator[Batch]:
        first_epoch, skipped = divmod(first, max(len(self._starts), 1))
        for epoch in range(first_epoch, self._end_epoch):
            rows = self._order(epoch)
            for start in self._starts[skipped:]:
                part = self._part(start)
                batch = self._take(part if rows is None else rows[part])
                yield self._finish(batch, epoch, start // self._starts.step)
            skipped = 0

    def _finish(self, batch: Any, epoch: int, number: int) -> Any:
        """Apply `map_batch`, if given, to a batch."""
        rank = self._share.rank
        return self._map_batch(batch, epoch, number, rank) if self._map_batch else batch

    def _part(self, start: int) -> slice:
        """Return the rows of this process's shard of the batch that starts at row `start`."""
        return self._share.of(start, min(start + self._starts.step, len(self._arrays[0])))

    def _take(self, rows: Any) -> Any:
        picked = [array[rows] for array in self._arrays]
        return tuple(picked) if self._names is None else dict(zip(self._names, picked))


@overload
def batches(
    data: Mapping[str, npt.ArrayLike],
    size: int,
    *,
    epochs: int = ...,
    first_epoch: int = ...,
    seed: int = ...,
    shuffle: bool = ...,
    drop_last: bool = ...,
    progress: bool = ...,
    shard: bool | str | None = ...,
    map_batch: Callable[..., Any] | None = ...,
) -> Batches[NamedArrays]: ...


@overload
def batches(
    data: Sequence[npt.ArrayLike],
    size: int,
    *,
    epochs: int = ...,
    first_epoch: int = ...,
    seed: int = ...,
    shuffle: bool = ...,
    drop_last: bool = ...,
    progress: bool = ...,
    shard: bool | str | None = ...,
    map_batch: Callable[..., Any] | None = ...,
) -> Batches[Arrays]: ...


@arguments.suggest
def batches(
    data: Sequence[npt.ArrayLike] | Mapping[str, npt.ArrayLike],
    size: int,
    *,
    epochs: int = 1,
    first_epoch: int = 0,
    seed: int = 0,
    shuffle: bool = True,
    drop_last: bool = False,
    progress: bool = False,
    shard: bool | str | None = None,
    map_batch: Callable[..., Any] | None = None,
) -> Batches[Any]:
    """Iterate over `data` in batches: ``for images, labels in batches(train, size=64): ...``.

    One call with all `epochs` uses a different order in each epoch. A script that loops over epochs
    itself creates the batches once, before that loop, or passes ``first_epoch=epoch``.

    Parameters
    ----------
    data : sequence or mapping of arrays
        Each [n, …] with the same n, such as a `Dataset`; or a mapping by input names:
        ``{"img": images, "label": labels}``.
    size : int, at least 1
        Rows in a batch. The last batch of an epoch has fewer rows if n is not a multiple of `size`.
    epochs : int, at least 0
        The number of iterations over the data.
    first_epoch : int, at least 0
        The index of the first epoch: 3 gives the orders of the fourth epoch and later.
    seed : int, at least 0
        The seed of the row order, which differs from epoch to epoch.
    shuffle : bool
        False returns the rows in their order, without a copy.
    drop_last : bool
        True skips a last batch with fewer than `size` rows.
    progress : bool
        True shows a progress bar on standard error if that is a terminal.
    shard : bool or str, optional
        True or "world" gives each process that a launcher has started its shard of each batch; the
        name of a group does so for the processes of that group. Of `size` rows, process 0 gets the
        first rows, and so on. All processes have the same order and the same position, from which
        more or fewer processes can continue. A single process gets complete batches.
    map_batch : callable, optional
        Transforms a batch, which is a tuple or dict of arrays: ``map_batch(batch)``, or
        ``map_batch(batch, rng)`` with a `numpy.random.Generator` that depends only on `seed`, the
        epoch and the index of the batch, so resumed training draws the same numbers.
        With `shard` each process transforms its shard, with its own stream.

    Returns
    -------
    Batches
        An iterator of tuples with one array [size, …] for each array of `data`; of dicts, if it is
        a mapping. `Model.save` and `Model.resume` accept it, to continue interrupted training.

    Raises
    ------
    AttributeTypeError, AttributeValueError, ShapeError
        At the call, before the first batch.
    """
    names, arrays = _check_data(data)
    options = check_options(
        "batches", size, epochs, first_epoch, seed, shuffle, drop_last, progress
    )
    share = find_share("batches", shard, size, len(arrays[0]), drop_last)
    function = None if map_batch is None else check_map("batches", "map_batch", map_batch, seed)
    return Batches(arrays, names, share=share, map_batch=function, **options)


def check_options(
    who: str,
    size: object,
    epochs: object,
    first_epoch: object,
    seed: object,
    shuffle: object,
    drop_last: object,
    progress: object,
) -> dict[str, Any]:
    """Check and return the options common to all batches; without shuffling the seed is None."""
    options: dict[str, Any] = {
        "size": checks.check_int(who, "size", size, at_least=1),
        "epochs": checks.check_int(who, "epochs", epochs, at_least=0),
        "first_epoch": checks.check_int(who, "first_epoch", first_epoch, at_least=0),
        "seed": checks.check_int(who, "seed", seed, at_least=0),
        "drop_last": checks.check_bool(who, "drop_last", drop_last),
        "progress": checks.check_bool(who, "progress", progress),
    }
    return options if checks.check_bool(who, "shuffle", shuffle) else options | {"seed": None}


def make_order(seed: int | None, epoch: int, rows: int) -> npt.NDArray[np.int64] | None:
    """Return the order of the rows in an epoch, or None without a seed."""
    if seed is None:
        return None
    # Each epoch has its own generator, so epoch 7 is the same in a long and in a short run.
    return np.random.default_rng((seed, epoch)).permutation(rows)


def _show_progress(iterator: Iterator[Batch], first: int, total: int) -> Iterator[Batch]:
    from tqdm import tqdm  # type: ignore[import-untyped]  # 30 ms to import

    # disable=None shows no bar unless standard error is a terminal.
    yield from tqdm(iterator, initial=first, total=total, unit=" batches", disable=None)


def _check_data(data: object) -> tuple[tuple[str, ...] | None, Arrays]:
    names: tuple[str, ...] | None = None
    if isinstance(data, Mapping):
        names = tuple([checks.check_str("batches", "names of data", name) for name in data])
        data = list(data.values())
    if isinstance(data, np.ndarray | str | bytes) or not isinstance(data, Sequence):
        raise AttributeTypeError(
            "batches: data must be a tuple, list or dict of arrays, got "
            f"{type(data).__name__}; pass a single array as (array,), and your own data set to "
            "nn.load_batches"
        )
    arrays = tuple([_as_array(i, array) for i, array in enumerate(data)])
    if not arrays or any(array.ndim == 0 for array in arrays):
        raise ShapeError(
            "batches: data must hold at least one array, each with an axis of rows, got shapes "
            f"{[list(array.shape) for array in arrays]}; pass arrays of shape [n, ...]"
        )
    if len({len(array) for array in arrays}) > 1:
        raise ShapeError(
            "batches: all arrays of data must have the same number of rows, got shapes "
            f"{[list(array.shape) for array in arrays]}; pass one row of each per sample"
        )
    return names, arrays


def _as_array(number: int, values: Any) -> npt.NDArray[Any]:
    if (array := checks.find_array(values)) is not None:
        return array
    raise AttributeTypeError(
        f"batches: data must be arrays, with rows of one shape, got {repr(values)[:100]} as array "
        f"{number}; pad its rows with nn.datasets.pad, or pass items to load_batches"
    )
