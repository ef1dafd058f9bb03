"""What users hand to a compiled network: feeds checked against their variables, made ready to read.

A ready array is C-contiguous, in native byte order and aligned to its item; such an array is
borrowed for the call, any other is copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from opwright import _runtime
from opwright.describe.dtypes import dtype_from_numpy
from opwright.describe.held_values import hold, make_ready
from opwright.describe.meta import Meta
from opwright.describe.names import hint
from opwright.device.arrays import borrow_array, is_array
from opwright.errors import DeviceNotFoundError, DtypeError, FeedError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class FeedSpec(NamedTuple):
    """What is known of a feed: ``shape`` None means any rank, -1 any size; ``dtype`` None any.

    Messages begin with ``who``, the function that got the feed, unless that is a network.
    """

    name: str
    shape: tuple[int, ...] | None
    dtype: str | None
    who: str = ""

    @property
    def label(self) -> str:
        """The beginning of messages."""
        return f"{self.who}: {self.name!r}" if self.who else f"feed {self.name!r}"


def check_feed_names(given: Iterable[str], wanted: Sequence[str]) -> None:
    """Raise FeedError for the first unknown or missing feed."""
    names = list(given)
    for name in names:
        if name not in wanted:
            raise FeedError(
                f"feed: unknown feed, got {name!r}{hint(name, wanted)}; "
                f"this network is fed {_listed(wanted)}"
            )
    for name in wanted:
        if name not in names:
            raise FeedError(f"feed: {name!r} is missing, got {_listed(names)}; pass {name}=array")


def ready_array(value: object, spec: FeedSpec) -> NDArray[Any]:
    """Return the feed as `read_feed` does, copied where a kernel could not read it."""
    return make_ready(read_feed(value, spec))


def read_feed(value: object, spec: FeedSpec) -> NDArray[Any]:
    """Return the feed as an array: that of the user where it is one, else a new one.

    Parameters
    ----------
    value : array_like
        A NumPy array must have the dtype of the variable; Python numbers and lists take it on,
        where it holds them. Anything with ``__dlpack__`` on the host is read without a copy.

    Raises
    ------
    FeedError
        If dtype or shape do not fit the variable.
    """
    try:
        if is_array(value):
            array = borrow_array(value, spec.label)
        else:
            array = hold(value, spec.dtype, spec.label, "the variable")
    except (DtypeError, DeviceNotFoundError) as error:
        raise FeedError(str(error)) from error
    check_meta(meta_of(array), spec)
    return array


def check_meta(meta: Meta, spec: FeedSpec) -> None:
    """Raise FeedError unless a feed of this meta fits its variable."""
    if spec.dtype is not None and meta.dtype != spec.dtype:
        raise FeedError(
            f"{spec.label}: dtype must be {spec.dtype}, got {meta.dtype}; "
            f"pass {spec.name}.astype({spec.dtype!r})"
        )
    if spec.shape is not None and not _fits(meta.shape, spec.shape):
        raise FeedError(
            f"{spec.label}: shape must be {shown_shape(spec.shape)}, got {shown_shape(meta.shape)}"
        )


def meta_of(array: NDArray[Any] | np.generic | _runtime.Tensor) -> Meta:
    """The meta of an array."""
    if isinstance(array, _runtime.Tensor):
        return Meta(array.shape, array.dtype)
    return Meta(array.shape, dtype_from_numpy(array.dtype))


def _fits(shape: Sequence[int], wanted: Sequence[int]) -> bool:
    return len(shape) == len(wanted) and all(
        want in (-1, dim) for dim, want in zip(shape, wanted, strict=True)
    )


def shown_shape(shape: Sequence[int]) -> str:
    """A shape as people write it: ``(?, 64)``."""
    inner = ", ".join("?" if dim < 0 else str(dim) for dim in shape)
    return f"({inner},)" if len(shape) == 1 else f"({inner})"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names) or "nothing"
