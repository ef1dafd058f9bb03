"""load_batches: batches of arrays, of items that a function decodes, and of generators."""

from __future__ import annotations

import dataclasses
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NoReturn

import numpy as np

from opwright.errors import AttributeTypeError, AttributeValueError
from opwright.plugin import describe_error
from opwright_nn import arguments, checks
from opwright_nn.datasets.batches import Batches, batches, check_options, make_order
from opwright_nn.datasets.samples import SHOWN, Map, check_map, collate
from opwright_nn.datasets.sharing import Share, find_share
from opwright_nn.datasets.workers import LoadError, Team

_WHO: Final = "load_batches"
_BUFFER: Final = 1024
_SHOWN: Final = 8
_MAX_TIMEOUT_S: Final = 2_000_000.0
"""The longest wait that the system supports: 2^31 milliseconds."""


def is_plain(items: object) -> bool:
    """Return whether reading an item is cheap; a user-defined class is assumed to be expensive."""
    return isinstance(items, list | tuple | range | np.ndarray)


def take(item: Any) -> Any:
    """Return an item unchanged, because it is already a sample."""
    return item


@dataclasses.dataclass
class Decoder:
    """Makes batch k of items, where k counts over all epochs; each worker has its own copy."""

    items: Sequence[Any]
    function: Map
    size: int
    per_epoch: int
    seed: int | None
    map_batch: Map | None = None
    order: tuple[int, Any] | None = None

    def __call__(self, number: int, share: Share) -> Any:
        """Return this process's shard of the batch."""
        epoch, index = divmod(number, self.per_epoch)
        picked = self._pick(number, share)
        batch = collate([self._decode(epoch, row) for row in picked], picked)
        return self.map_batch(batch, epoch, index, share.rank) if self.map_batch else batch

    def describe(self, number: int, share: Share) -> str:
        """Return the items of a batch, for messages."""
        picked = self._pick(number, share)
        shown = ", ".join(map(str, picked[:_SHOWN])) + (", ..." if len(picked) > _SHOWN else "")
        if not is_plain(self.items):
            return f"items {shown}"
        return f"items {shown}, the first of them {repr(self.items[picked[0]])[:SHOWN]}"

    def _pick(self, number: int, share: Share) -> Sequence[int]:
        epoch, batch = divmod(number, self.per_epoch)
        if self.order is None or self.order[0] != epoch:
            self.order = epoch, make_order(self.seed, epoch, len(self.items))
        start = batch * self.size
        part = share.of(start, min(start + self.size, len(self.items)))
        order = self.order[1]
        return range(part.start, part.stop) if order is None else order[part].tolist()

    def _decode(self, epoch: int, row: int) -> Any:
        named = f"item {row}"
        try:
            item = self.items[row]
            named += f", {repr(item)[:SHOWN]}" if is_plain(self.items) else ""
            return self.function(item, epoch, row)
        except Exception as error:
            raise LoadError(
                f"{_WHO}: map must return a sample for each item, got {describe_error(error)} for "
                f"{named}; fix the item, or omit it"
            ) from error


class Loader(Batches[Any]):
    """The result of `load_batches` for items; its workers run as long as it exists."""

    def __init__(self, decoder: Decoder, team: Team | None, **options: Any) -> None:
        self._decoder = decoder
        self._team = team
        rows = np.arange(len(decoder.items))
        super().__init__((rows,), None, decoder.size, seed=decoder.seed, **options)

    def _describe_array(self, index: int) -> str:
        items = self._decoder.items
        if not is_plain(items):
            return f"items[{len(items)}]: {type(items).__qualname__}"
        # Addresses are removed, as they differ from process to process.
        texts = re.sub(" at 0x[0-9A-Fa-f]+", "", "\n".join(repr(item)[:SHOWN] for item in items))
        return f"items[{len(items)}]: {zlib.crc32(texts.encode('utf-8', 'replace'))}"

    def _iterate(self, first: int) -> Iterator[Any]:
        end = self._end_epoch * len(self._starts)
        if self._team is None or end <= first:
            return (self._decoder(number, self._share) for number in range(first, end))
        return self._team.iterate(first, end, self._share)

    def close(self) -> None:
        """Stop the workers; the position is kept, and the next batch restarts them."""
        ended = self._ended
        self._begin(self._next)
        self._ended = ended
        if self._team is not None:
            self._team.close()

    def repeat(self, epochs: int) -> Loader:
        """Return the same batches from epoch 0, from the same workers, without a progress bar."""
        epochs = checks.check_int("Loader.repeat", "epochs", epochs, at_least=0)
        return Loader(self._decoder, self._team, **self._options(epochs))


class Stream(Batches[Any]):
    """The result of `load_batches` for a function that returns an iterator."""

    def __init__(
        self,
        function: Callable[[], Iterable[Any]],
        samples: int,
        **options: Any,
    ) -> None:
        self._function = function
        super().__init__((np.arange(samples),), None, **options)

    def _order(self, epoch: int) -> None:
        return None

    def _describe_array(self, index: int) -> str:
        return f"samples[{len(self._arrays[0])}]"

    def _iterate(self, first: int) -> Iterator[Any]:
        first_epoch, skipped = divmod(first, max(len(self._starts), 1))
        for epoch in range(first_epoch, self._end_epoch):
            samples = self._shuffle(epoch, self._count(self._start()))
            size = self._starts.step
            for number in range(len(self._starts)):
                part = list(islice(samples, size))
                if number >= skipped:
                    start = number * size
                    part = part[self._share.of(0, len(part))]
                    decoded = [self._map(x, epoch, i) if self._map else x for i, x in part]
                    batch = collate(decoded, [i for i, _ in part] or [start])
                    yield self._finish(batch, epoch, number)
            skipped = 0
            for _ in samples:  # the batches of drop_last so that their number is checked
                pass

    def _start(self) -> Iterator[Any]:
        samples = self._function()
        if isinstance(samples, Iterable):
            return iter(samples)
        raise LoadError(
            f"{_WHO}: data must return an iterator of samples for each epoch, got {samples!r} "
            f"({type(samples).__name__}); let it end with return, or yield samples"
        )

    def _count(self, samples: Iterator[Any]) -> Iterator[tuple[int, Any]]:
        total = len(self._arrays[0])
        number = 0
        for sample in samples:
            if number == total:
                self._raise_number("more")
            yield number, sample
            number += 1
        if number < total:
            self._raise_number(f"only {number}")

    def _raise_number(self, got: str) -> NoReturn:
        raise LoadError(
            f"{_WHO}: data must yield samples={len(self._arrays[0])} samples in each epoch, got "
            f"{got}; pass their actual number"
        )

    def _shuffle(self, epoch: int, samples: Iterator[Any]) -> Iterator[Any]:
        """Yield samples from a buffer in random order; without a seed, in the original order."""
        if self._seed is None:
            yield from samples
            return
        rng = np.random.default_rng((self._seed, epoch))
        buffer = list(islice(samples, _BUFFER))
        for sample in samples:
            place = int(rng.integers(len(buffer)))
            yield buffer[place]
            buffer[place] = sample
        yield from (buffer[place] for place in rng.permutation(len(buffer)))

    def repeat(self, epochs: int) -> Stream:
        """Return the same batches from epoch 0, for a number of epochs, without a progress bar."""
        epochs = checks.check_int("Stream.repeat", "epochs", epochs, at_least=0)
        options = {"size": self._starts.step, "seed": self._seed, **self._options(epochs)}
        return Stream(self._function, len(self._arrays[0]), **options)


@arguments.suggest
def load_batches(
    data: Any,
    size: int,
    *,
    map: Callable[[Any], Any] | None = None,
    samples: int | None = None,
    workers: int = 0,
    ahead: int = 2,
    timeout: float | None = None,
    epochs: int = 1,
    first_epoch: int = 0,
    seed: int = 0,
    shuffle: bool = True,
    drop_last: bool = False,
    progress: bool = False,
    shard: bool | str | None = None,
    map_batch: Callable[..., Any] | None = None,
) -> Batches[Any]:
    """Iterate over arrays, files or generators in batches, decoded ahead by worker processes.

    Parameters
    ----------
    data : arrays, sequence of items, or callable
        Arrays without `map`, as for `batches`: they are in memory, and `batches` returns them.
        Items with `map`, such as paths. An object of your own class with ``__len__`` and
        ``__getitem__``, whose items are samples, or arguments of `map`. Or a function that returns
        an iterator of samples for each epoch.
    size : int, at least 1
        Samples in a batch.
    map : callable, optional
        Makes a sample from an item: an array, or a tuple or dict of arrays. A function that takes
        ``rng``, ``map(item, rng)``, gets a `numpy.random.Generator` that depends only on `seed`,
        the epoch and the index of the item: samples are the same with any number of workers, and
        after resuming. With workers, it must be defined in a module.
    samples : int, at least 0, optional
        The number of samples in an epoch; required if `data` is a function.
    workers : int, at least 0
        Processes that decode items; order and batches do not depend on their number. 0 decodes in
        this process. They start at the first batch and run as long as the result and its copies
        from ``repeat`` exist, or until its ``close``. A script that uses workers must call this
        function under ``if __name__ == "__main__":``, because they import the script.
    ahead : int, at least 1
        Batches that each worker decodes ahead.
    timeout : float in (0, 2000000], optional
        The seconds to wait for a batch, since a worker may hang. After this time a `LoadError`
        names the items of the batch. The first batches also wait for the workers to start. By
        default there is no limit.
    epochs, first_epoch, seed, shuffle, drop_last, progress, shard, map_batch
        As for `batches`. Samples of a function are shuffled within a buffer of 1,024. With `shard`
        a process decodes only its own shard; a function returns all samples in each process.

    Returns
    -------
    Batches
        An iterator with a position, like `batches`; `train` takes it. Workers that ended
        between two loops, by a signal for example, are restarted.

    Raises
    ------
    AttributeTypeError, AttributeValueError, ShapeError
        At the call.
    LoadError
        Raised while iterating: `map` failed (the message names the item), a sample is not an array,
        samples differ in shape, or a worker ended, by a signal for example.
    """
    workers, ahead, timeout = _check_ahead(workers, ahead, timeout)
    options = check_options(_WHO, size, epochs, first_epoch, seed, shuffle, drop_last, progress)
    if map is None and _is_sequence(data) and not is_plain(data):
        map = take
    function = None if map is None else check_map(_WHO, "map", map, seed)
    finish = None if map_batch is None else check_map(_WHO, "map_batch", map_batch, seed)
    _check_source(data, map, samples, workers)
    if function is None and not callable(data):
        options |= {"seed": seed, "shuffle": shuffle, "shard": shard, "map_batch": map_batch}
        return batches(data, **options)
    count = checks.check_int(_WHO, "samples", samples if callable(data) else len(data), at_least=0)
    options["share"] = find_share(_WHO, shard, size, count, drop_last)
    options |= {"map": function, "map_batch": finish}
    if function is None or callable(data):
        return Stream(data, count, **options)
    stop = count - size + 1 if drop_last else count
    per_epoch = len(range(0, max(stop, 0), size))
    decoder = Decoder(data, function, options.pop("size"), per_epoch, options.pop("seed"), finish)
    team = Team(decoder, workers, ahead, timeout, decoder.describe) if workers else None
    return Loader(decoder, team, **options)


def _check_ahead(workers: Any, ahead: Any, timeout: Any) -> tuple[int, int, float | None]:
    """Return the number of decoding processes, how many batches they prefetch, and the timeout."""
    workers = checks.check_int(_WHO, "workers", workers, at_least=0)
    ahead = checks.check_int(_WHO, "ahead", ahead, at_least=1)
    if timeout is not None:
        timeout = checks.check_float(_WHO, "timeout", timeout, above=0.0, at_most=_MAX_TIMEOUT_S)
        if not workers:
            raise AttributeValueError(
                f"{_WHO}: timeout requires worker processes, got timeout={timeout:g} with "
                "workers=0; omit one of them"
            )
    return workers, ahead, timeout


def _check_source(data: Any, map: Any, samples: Any, workers: int) -> None:
    """Raise if data, map, samples and workers do not fit together."""
    if callable(data) is (samples is None):
        raise AttributeValueError(
            f"{_WHO}: samples must be given if data is a function, otherwise omitted, got "
            f"samples={samples!r}; it is the number of samples that a function yields per epoch"
        )
    if workers and (map is None or callable(data)):
        raise AttributeValueError(
            f"{_WHO}: workers require a sequence of items and map, got workers={workers} for "
            f"{'a function' if callable(data) else 'data without map'}; omit workers"
        )
    if map is not None and not callable(data) and not _is_sequence(data):
        raise AttributeTypeError(
            f"{_WHO}: data must be a sequence of items if map is given, got "
            f"{type(data).__name__}; pass a list of paths, for example"
        )


def _is_sequence(data: object) -> bool:
    is_text = isinstance(data, str | bytes | Mapping)
    return hasattr(data, "__getitem__") and hasattr(data, "__len__") and not is_text
