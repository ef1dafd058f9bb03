"""Checks the feeds of a compiled network against its variables, and makes them ready to read.

`opwright.device.incoming` converts each kind of value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from opwright import _runtime
from opwright.describe.dtypes import dtype_from_numpy
from opwright.describe.meta import Meta, advise_shape, shapes_match
from opwright.describe.names import hint
from opwright.device.incoming import (
    borrow_host,
    describe_place,
    find_place,
    find_tensor,
    is_array,
    lend,
    make_ready,
)
from opwright.errors import DeviceNotFoundError, DtypeError, FeedError
from opwright.plugins.context import current_context

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from opwright.plugins.context import Context
    from opwright.program import Variable


class FeedSpec(NamedTuple):
    """The variable of a feed: ``shape`` None means any rank, -1 any size; ``dtype`` None any.

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


def check_feed_names(given: Iterable[str], expected: Sequence[str]) -> None:
    """Raise FeedError for the first unknown or missing feed."""
    names = list(given)
    for name in names:
        if not expected:
            raise FeedError(
                f"feed: this network is fed nothing, got {name!r}; say what is fed when it is "
                f"compiled: compile(feed=[{name!r}], ...)"
            )
        if name not in expected:
            raise FeedError(
                f"feed: unknown feed, got {name!r}{hint(name, expected)}; "
                f"this network is fed {_quote_names(expected)}"
            )
    for name in expected:
        if name not in names:
            raise FeedError(
                f"feed: {name!r} is missing, got {_quote_names(names)}; pass {name}=array"
            )


def check_feed(value: Any, variable: Variable, who: str) -> Any:
    """Return a value as it can be fed to a variable, checked before a network is called with it.

    Parameters
    ----------
    value : array_like
        A NumPy array must have the dtype of the variable, and is borrowed; Python numbers and lists
        are converted to it, where it holds them. An array of another library is returned unchanged:
        a network reads and checks it at the call.
    variable : Variable
        Its shape is checked at the call.
    who : str
        The caller, for messages.

    Raises
    ------
    FeedError
        Where the dtype does not fit the variable.
    """
    spec = FeedSpec(variable.name, None, variable.dtype, who)
    is_lent = is_array(value) and not isinstance(value, np.ndarray)
    if is_lent or find_place(value, current_context(), spec.label) is not None:
        return value
    return _borrow(value, spec)


def ready_feed(
    value: object, spec: FeedSpec, device: _runtime.Device, context: Context
) -> NDArray[Any] | _runtime.Tensor:
    """Return the feed as a plan on `device` can read it: a ready array, or a tensor on the device.

    An array on the host must have the dtype of the variable; Python numbers and lists are converted
    to it, where it holds them. An array on the device is used there, without a copy to the host.
    FeedError where dtype or shape do not fit, or the array lies on another device.
    """
    if isinstance(value, np.ndarray):
        return make_ready(_borrow(value, spec))
    if device.is_host:
        value = lend(value)
    else:
        tensor = find_tensor(value, device, spec.label)
        if tensor is not None:
            check_meta(meta_of(tensor), spec)
            return tensor
    place = find_place(value, context, spec.label)
    if place is not None:
        raise _elsewhere(value, place, spec, device, context)
    return make_ready(_borrow(value, spec))


def _borrow(value: object, spec: FeedSpec) -> NDArray[Any]:
    try:
        array = borrow_host(value, spec.label, spec.dtype, "the variable")
    except (DtypeError, DeviceNotFoundError) as error:
        raise FeedError(str(error)) from error
    check_meta(meta_of(array), spec)
    return array


def _elsewhere(
    value: Any, place: tuple[int, int], spec: FeedSpec, device: _runtime.Device, context: Context
) -> FeedError:
    here, there = device.name, describe_place(*place, context)
    if isinstance(value, (_runtime.Tensor, _runtime.ScopeVariable)):
        other = value.opened_device or device
        here, there = device.name_beside(other), other.name_beside(device)
    return FeedError(
        f"{spec.label}: an array must lie on the host or on {here}, where the network runs, got "
        f"{type(value).__name__} on {there}; copy it, or compile for its device"
    )


def check_meta(meta: Meta, spec: FeedSpec) -> None:
    """Raise FeedError unless a feed of this meta fits its variable."""
    if spec.dtype is not None and meta.dtype != spec.dtype:
        raise FeedError(
            f"{spec.label}: dtype must be {spec.dtype}, got {meta.dtype}; "
            f"pass {spec.name}.astype({spec.dtype!r})"
        )
    if spec.shape is not None and not shapes_match(meta.shape, spec.shape):
        raise FeedError(
            f"{spec.label}: shape must be {shown_shape(spec.shape)}, got "
            f"{shown_shape(meta.shape)}; {advise_shape(spec.name, spec.shape, meta.shape)}"
        )


def meta_of(array: NDArray[Any] | np.generic | _runtime.Tensor) -> Meta:
    """Return the meta of an array."""
    if isinstance(array, _runtime.Tensor):
        return Meta(array.shape, array.dtype)
    return Meta(array.shape, dtype_from_numpy(array.dtype))


def shown_shape(shape: Sequence[int]) -> str:
    """Return a shape as text: ``(?, 64)``."""
    inner = ", ".join("?" if dim < 0 else str(dim) for dim in shape)
    return f"({inner},)" if len(shape) == 1 else f"({inner})"


def _quote_names(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names) or "nothing"
