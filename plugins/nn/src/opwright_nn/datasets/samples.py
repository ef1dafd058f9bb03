"""Makes samples with user functions, and batches from samples: arrays, tuples or dicts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from opwright.errors import AttributeTypeError
from opwright_nn import checks
from opwright_nn.datasets.workers import LoadError

SHOWN: Final = 200
"""The maximum number of characters of an item or a sample in a message."""

_WHO: Final = "load_batches"


class Map(NamedTuple):
    """A user's function that makes a sample from an item, or transforms a batch.

    Attributes
    ----------
    function : callable
        The function that the user passed.
    seed : int or None
        The seed of the streams for its argument ``rng``; None if it has no such argument.
    """

    function: Callable[..., Any]
    seed: int | None

    def __call__(self, item: Any, epoch: int, *number: int) -> Any:
        """Call the function; its random stream depends only on seed, epoch and number."""
        if self.seed is None:
            return self.function(item)
        # spawn_key is used since (seed, epoch, 0) would give the stream of (seed, epoch), which
        # shuffles.
        sequence = np.random.SeedSequence((self.seed, epoch), spawn_key=number)
        return self.function(item, rng=np.random.Generator(np.random.PCG64(sequence)))


def check_map(who: str, name: str, function: Any, seed: int) -> Map:
    """Return the function, with the seed of its random streams if it has an argument `rng`."""
    checks.check_callable(who, name, function)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a C function, which accepts only the item
        return Map(function, None)
    required = [item.name for item in parameters if item.default is item.empty and item.kind < 2]
    if len(required) > 1 and required[1:] != ["rng"]:
        raise AttributeTypeError(
            f"{who}: {name} must take one argument, optionally also a random stream named rng, got "
            f"the arguments {', '.join(required)}; name the second argument rng"
        )
    draws = any(item.name == "rng" for item in parameters)
    return Map(function, seed if draws else None)


def collate(samples: Sequence[Any], numbers: Sequence[int]) -> Any:
    """Stack samples into a tuple or dict of arrays [size, …], one for each array of a sample.

    Parameters
    ----------
    samples : sequence
        Arrays, or tuples or dicts of them.
    numbers : sequence of int
        The number of each sample in messages.
    """
    named = isinstance(samples[0], Mapping)
    rows = [_split(sample, number) for sample, number in zip(samples, numbers)]
    first = _find_forms(rows[0])
    for number, row in zip(numbers, rows):
        if _find_forms(row) != first:
            forms = [{k: (str(a.dtype), a.shape) for k, a in one.items()} for one in (row, rows[0])]
            raise LoadError(
                f"{_WHO}: samples of a batch must have the same names, dtypes and shapes, got "
                f"{forms[0]} for item {number} and {forms[1]} for item {numbers[0]}; convert them "
                "in map"
            )
    stacked = {key: np.stack([row[key] for row in rows]) for key in rows[0]}
    return stacked if named else tuple(stacked.values())


def _find_forms(row: Mapping[Any, npt.NDArray[Any]]) -> dict[Any, Any]:
    return {key: (array.dtype, array.shape) for key, array in row.items()}


def _split(sample: Any, number: int) -> dict[Any, Any]:
    """Return the arrays of a sample by name, or by index."""
    if isinstance(sample, Mapping):
        pairs = dict(sample)
    else:
        pairs = dict(enumerate(sample if isinstance(sample, tuple) else (sample,)))
    if not pairs:
        _raise_sample(number, f"an empty {type(sample).__name__}", "return at least one array")
    return {key: _as_array(value, number) for key, value in pairs.items()}


def _as_array(value: Any, number: int) -> npt.NDArray[Any]:
    if value is None:
        _raise_sample(number, "None", "end map with return")
    if (array := checks.find_array(value)) is None:
        got = f"{repr(value)[:SHOWN]} ({type(value).__name__})"
        _raise_sample(number, got, "convert it to an array; return several arrays as a tuple")
    return array


def _raise_sample(number: int, got: str, advice: str) -> NoReturn:
    raise LoadError(
        f"{_WHO}: a sample must be an array, or a tuple or dict of arrays, got {got} for item "
        f"{number}; {advice}"
    )
