"""The served model, a folder or bundle, which checks requests and can be replaced at run time."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import opwright as ow
from opwright.errors import OpwrightError

Array = npt.NDArray[Any]


class RequestError(Exception):
    """An error in a request, with an HTTP status and the reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Version(NamedTuple):
    """A loaded version of the model.

    Attributes
    ----------
    number : int
        1 at the start, incremented by each reload.
    loaded : LoadedProgram
    is_batched : bool
        Whether the first axis of all inputs and results is the batch, so the rows of several
        requests can be computed together.
    """

    number: int
    loaded: ow.LoadedProgram
    is_batched: bool

    def read(self, fields: object) -> dict[str, Array]:
        """Convert a request, a dict of nested lists, to arrays, or raise RequestError."""
        names = [spec.name for spec in self.loaded.feeds]
        if not isinstance(fields, dict) or sorted(fields) != sorted(names):
            got = sorted(fields) if isinstance(fields, dict) else type(fields).__name__
            raise RequestError(
                422, f"the body must be an object with the fields {names}, got {got}"
            )
        arrays = {spec.name: _read_array(fields[spec.name], spec) for spec in self.loaded.feeds}
        if self.is_batched and len({len(array) for array in arrays.values()}) > 1:
            lengths = {name: len(array) for name, array in arrays.items()}
            raise RequestError(422, f"all fields must have the same number of rows, got {lengths}")
        return arrays

    def compute(self, arrays: dict[str, Array]) -> list[Array]:
        """Return the results of a call."""
        return list(self.loaded(arrays))


def _read_array(value: object, spec: Any) -> Array:
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "biuf" or not np.can_cast(array.dtype, spec.dtype, "same_kind"):
            raise ValueError(f"got values of dtype {array.dtype}")
        array = array.astype(spec.dtype)
    except (ValueError, OverflowError) as error:
        raise RequestError(
            422, f"{spec.name}: must be an array of {spec.dtype}, {error}"
        ) from error
    shape = spec.shape
    fits = shape is None or (
        len(shape) == array.ndim
        and all(want in (None, got) for want, got in zip(shape, array.shape, strict=True))
    )
    if not fits or not array.size:
        wanted = [dim or "n" for dim in shape or ()]
        raise RequestError(
            422, f"{spec.name}: must have the shape {wanted}, got {list(array.shape)}"
        )
    return array


class Model:
    """The current version of the model at a path.

    Parameters
    ----------
    path : str
        A folder written by `model.export`, or a bundle.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock = threading.Lock()
        self.version = self._load(1)

    def reload(self) -> Version:
        """Reload the path; if that fails, raise an error and continue with the current version."""
        with self._lock:
            version = self._load(self.version.number + 1)
            self.version = version  # immediately, since requests that use the old version keep it
            return version

    def _load(self, number: int) -> Version:
        loaded = ow.load(self.path)
        specs = [*loaded.feeds, *loaded.fetches]
        version = Version(number, loaded, all(_has_batch(spec) for spec in specs))
        _warm(version)
        return version


def _has_batch(spec: Any) -> bool:
    return bool(spec.shape) and spec.shape[0] is None


def _warm(version: Version) -> None:
    """Compute one row of zeros, so the first request does not wait for a plan."""
    if any(spec.shape is None or None in spec.shape[1:] for spec in version.loaded.feeds):
        return  # sizes that are known only in requests
    zeros = {
        spec.name: np.zeros([dim or 1 for dim in spec.shape or ()], spec.dtype)
        for spec in version.loaded.feeds
    }
    try:
        version.compute(zeros)
    except OpwrightError as error:
        raise RuntimeError(f"the model cannot compute a row of zeros: {error}") from error
