"""Source: the batches for training, epoch by epoch, as feeds of the step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from opwright.errors import AttributeTypeError, AttributeValueError, FeedError
from opwright.plugin import hint
from opwright_nn import checks
from opwright_nn.datasets.batches import Batches, batches

DEFAULT_BATCH_SIZE = 32

Feeds = Mapping[str, Any]
Convert = Callable[[str, str, Any], Any]
Data = Mapping[str, Any] | Iterable[Any] | Callable[[], Iterable[Any]]
"""Arrays, `nn.batches`, an iterable of batches, or a function that returns one."""


class Source:
    """Batches that can be iterated repeatedly, from any batch of any epoch.

    Parameters
    ----------
    who : str
        The argument, for messages.
    data : Batches, iterable or callable
        The source of the batches: of all epochs, or new batches for each epoch.
    names : tuple of str, optional
        The feeds of a tuple of arrays, in order; None if only dicts are accepted.
    convert : callable, optional
        Returns a feed in the dtype of its input; called with `who`, the name of the
        input and the array.
    """

    def __init__(
        self,
        who: str,
        data: Any,
        names: tuple[str, ...] | None,
        convert: Convert | None = None,
    ) -> None:
        self._who = who
        self._data = data
        self._names = names
        self._convert = convert
        self._converted: tuple[str, ...] = ()
        self._checked = False
        self._rows_of: str | None = None

    @property
    def per_epoch(self) -> int | None:
        """The number of batches in an epoch, or None if unknown."""
        if isinstance(self._data, Batches):
            return self._data.per_epoch
        return len(self._data) if hasattr(self._data, "__len__") else None

    @property
    def position(self) -> dict[str, Any] | None:
        """The position of `Batches`, or None for other data, where resuming skips used batches."""
        return self._data.position if isinstance(self._data, Batches) else None

    @property
    def is_shared(self) -> bool | None:
        """Whether processes share each batch, or None if only the data determines it."""
        return self._data.is_shared if isinstance(self._data, Batches) else None

    def restore(self, position: Mapping[str, Any] | None) -> None:
        """Continue from a saved position."""
        if (position is None) is isinstance(self._data, Batches):
            kinds = ("arrays or nn.batches", "other data")
            saved, own = kinds if position is not None else kinds[::-1]
            raise AttributeValueError(
                f"{self._who}: data must be of the saved kind, {saved}, got {own}; pass the same "
                "kind"
            )
        if position is not None:
            self._data.restore(position)

    def example(self) -> Feeds:
        """Return the feeds of a batch, without advancing."""
        data = self._data.repeat(1) if isinstance(self._data, Batches) else self._iterate()
        for batch in data:
            return self._name(batch)
        raise AttributeValueError(
            f"{self._who}: there must be at least one batch, got none; pass at least as "
            "many rows as one batch has"
        )

    def once(self) -> Iterator[Feeds]:
        """Return the batches of one epoch for an evaluation, without sharding over processes."""
        data = self._data.whole() if isinstance(self._data, Batches) else self._iterate()
        return map(self._name, data)

    def epoch(self, done: int) -> Iterator[Feeds]:
        """Return the batches of the current epoch after the first `done` batches."""
        if isinstance(self._data, Batches):
            # Calls __next__, since a for loop would start further epochs after the last epoch.
            left = self._data.per_epoch - done
            return map(self._name, islice(iter(self._data.__next__, None), left))
        return map(self._name, islice(self._iterate(), done, None))

    def count_rows(self, feeds: Feeds) -> int:
        """Return the size of a batch: the length of its first array with an axis."""
        if self._rows_of is not None:
            return len(feeds[self._rows_of])
        lengths = {name: shape[0] for name, array in feeds.items() if (shape := np.shape(array))}
        self._rows_of = next(iter(lengths), None)
        return next(iter(lengths.values()), 1)

    def _iterate(self) -> Iterator[Any]:
        batches_of: Any = self._data() if callable(self._data) else self._data
        try:
            return iter(batches_of)
        except TypeError as error:
            raise AttributeTypeError(
                f"{self._who}: a function of batches must return an iterable, got {batches_of!r} "
                f"({type(batches_of).__name__}); yield them, for example"
            ) from error

    def _name(self, batch: Any) -> Feeds:
        if self._checked:  # all batches are equivalent; the step checks the arrays
            feeds: Feeds = batch if type(batch) is dict else dict(zip(self._names or (), batch))
            return self._cast(feeds, self._converted) if self._converted else feeds
        feeds = self._checked_feeds(batch)
        self._checked = True
        cast = self._cast(feeds, feeds)
        self._converted = tuple(name for name in feeds if cast[name] is not feeds[name])
        return cast

    def _cast(self, feeds: Feeds, names: Iterable[str]) -> dict[str, Any]:
        """Return the feeds after converting the values of the listed names."""
        if self._convert is None:
            return dict(feeds)
        return {**feeds, **{name: self._convert(self._who, name, feeds[name]) for name in names}}

    def _checked_feeds(self, batch: Any) -> Feeds:
        names = self._names
        if isinstance(batch, Mapping):
            for name in batch:
                if names is not None and name not in names:
                    raise FeedError(
                        f"{self._who}: a batch must contain only inputs, "
                        f"got {name!r}{hint(str(name), names, 'inputs')}"
                    )
            missing = [name for name in names or () if name not in batch]
            if missing:
                raise FeedError(
                    f"{self._who}: a batch must have every input, got none for {missing[0]!r}; "
                    "add it"
                )
            return dict(batch)
        if isinstance(batch, np.ndarray) or not isinstance(batch, Sequence):
            batch = (batch,)
        if names is None or len(batch) != len(names):
            listed = "not named" if names is None else ", ".join(map(repr, names))
            raise FeedError(
                f"{self._who}: a batch must have one array for each input, got {len(batch)} for "
                f"the inputs {listed}; pass a dict: {{'img': images, 'label': labels}}"
            )
        return dict(zip(names, batch, strict=True))


def make_source(
    who: str,
    data: Any,
    names: tuple[str, ...] | None,
    epochs: int,
    options: Mapping[str, Any],
    convert: Convert | None = None,
) -> Source:
    """Return the source of the user's data.

    Parameters
    ----------
    who : str
        The argument, for messages.
    data : Batches, arrays, iterable or callable
        Arrays are a tuple, a dict, or a list of arrays; anything else iterable yields batches.
    names : tuple of str, optional
        The feeds of a tuple.
    epochs : int
        The number of times it will be iterated over.
    options : mapping
        Arguments of `nn.batches`; None means the default; they are only for arrays.
    convert : callable, optional
        As for `Source`.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if are_arrays(data):
        size = given.pop("size", DEFAULT_BATCH_SIZE)
        size = checks.check_int("train", "batch_size", size, at_least=1)
        data = _convert_lists(who, data, names, convert)
        return Source(who, batches(data, size, epochs=epochs, **given), names, convert)
    if given:
        name = next(iter(given))
        name = "batch_size" if name == "size" else name
        raise AttributeValueError(
            f"{who}: {name} applies only to arrays, got it with {type(data).__name__}; pass it to "
            "the function that makes the batches"
        )
    if isinstance(data, Batches):
        return Source(who, data.repeat(epochs), names, convert)
    if not callable(data) and not isinstance(data, Iterable):
        raise AttributeTypeError(
            f"{who}: data must be arrays, nn.batches, an iterable of batches or a function that "
            f"returns one, got {data!r} ({type(data).__name__}); pass (images, labels), or "
            "nn.load_batches(data, 32) for your own data set"
        )
    if isinstance(data, Iterator) and epochs > 1:
        raise AttributeTypeError(
            f"{who}: data must yield its batches in each of {epochs} epochs, got an iterator, "
            "which yields them once; pass the function that makes it"
        )
    return Source(who, data, names, convert)


def _convert_lists(
    who: str, data: Any, names: tuple[str, ...] | None, convert: Convert | None
) -> Any:
    """Return data with each list converted to an array of the dtype of its input."""
    if convert is None or (not isinstance(data, Mapping) and len(data) != len(names or ())):
        return data
    pairs = data.items() if isinstance(data, Mapping) else zip(names or (), data, strict=True)
    arrays = {n: convert(who, n, x) if isinstance(x, list | tuple) else x for n, x in pairs}
    return arrays if isinstance(data, Mapping) else tuple(arrays.values())


def are_arrays(data: object) -> bool:
    """Return whether data is arrays of rows, rather than batches."""
    if isinstance(data, tuple | Mapping):
        return True
    return isinstance(data, list) and all(isinstance(item, np.ndarray) for item in data)
