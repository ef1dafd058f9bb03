"""What users hand to a compiled network: feeds checked against their variables, made ready to read.

How a value of whatever kind comes in is said in `opwright.device.incoming`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from opwright import _runtime
from opwright.describe.dtypes import dtype_from_numpy
from opwright.describe.meta import Meta
from opwright.describe.names import hint
from opwright.device.incoming import describe_place, find_place, find_tensor, lend, read_host
from opwright.errors import DeviceNotFoundError, DtypeError, FeedError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from opwright.plugins.context import Context


class FeedSpec(NamedTuple):
    """What is known of a feed: ``shape`` None means any rank, -1 any size; ``dtype`` None any."""

    name: str
    shape: tuple[int, ...] | None
    dtype: str | None


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


def ready_feed(
    value: object, spec: FeedSpec, device: _runtime.Device, context: Context
) -> NDArray[Any] | _runtime.Tensor:
    """Return the feed as a plan on `device` can read it: a ready array, or a tensor there.

    An array on the host must have the dtype of the variable; Python numbers and lists take it on,
    where it holds them. One that lies on the device is taken as it is, without a trip over the
    host.

    Raises
    ------
    FeedError
        If dtype or shape do not fit the variable, or the array lies on another device.
    """
    who = f"feed {spec.name!r}"
    tensor = None
    if device.is_host:
        value = lend(value)
    else:
        tensor = find_tensor(value, device, who)
    ready = _read_host(value, spec, who, device, context) if tensor is None else tensor
    check_meta(meta_of(ready), spec)
    return ready


def _read_host(
    value: object, spec: FeedSpec, who: str, device: _runtime.Device, context: Context
) -> NDArray[Any]:
    place = find_place(value, context, who)
    if place is not None:
        raise _elsewhere(value, place, who, device, context)
    try:
        return read_host(value, who, spec.dtype, "the variable")
    except (DtypeError, DeviceNotFoundError) as error:
        raise FeedError(str(error)) from error


def _elsewhere(
    value: Any, place: tuple[int, int], who: str, device: _runtime.Device, context: Context
) -> FeedError:
    here, there = device.name, describe_place(*place, context)
    if isinstance(value, (_runtime.Tensor, _runtime.ScopeVariable)):
        other = value.opened_device or device
        here, there = device.name_beside(other), other.name_beside(device)
    return FeedError(
        f"{who}: an array must lie on the host or on {here}, where the network runs, got "
        f"{type(value).__name__} on {there}; copy it, or compile for its device"
    )


def check_meta(meta: Meta, spec: FeedSpec) -> None:
    """Raise FeedError unless a feed of this meta fits its variable."""
    if spec.dtype is not None and meta.dtype != spec.dtype:
        raise FeedError(
            f"feed {spec.name!r}: dtype must be {spec.dtype}, got {meta.dtype}; "
            f"pass {spec.name}.astype({spec.dtype!r})"
        )
    if spec.shape is not None and not _fits(meta.shape, spec.shape):
        raise FeedError(
            f"feed {spec.name!r}: shape must be {shown_shape(spec.shape)}, "
            f"got {shown_shape(meta.shape)}"
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
