"""Feeds that lie on a device: taken there as tensors, or refused with the name of the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from opwright import _runtime
from opwright.device.arrays import HOST_CODES, reading
from opwright.device.feeds import FeedSpec, check_meta, meta_of, ready_array
from opwright.device.opening import find_device_name, find_interface_place
from opwright.errors import FeedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from opwright.plugins.context import Context

_HOST_KINDS: Final = (np.ndarray, np.generic, int, float, complex, list, tuple)
"""What need not be asked."""


def ready_feed(
    value: object, spec: FeedSpec, device: _runtime.Device, context: Context
) -> NDArray[Any] | _runtime.Tensor:
    """Return the feed as a plan on `device` can read it: a ready array, or a tensor there.

    An array that lies on the device is taken as it is, without a trip over the host.

    Raises
    ------
    FeedError
        If dtype or shape do not fit the variable, or the array lies on another device.
    """
    if isinstance(value, np.ndarray):
        return ready_array(value, spec)
    who = f"feed {spec.name!r}"
    with reading(value, who, device.name):
        is_here = device.holds(value)
    if not is_here:
        _check_on_host(value, spec, device, context)
        return ready_array(value, spec)
    with reading(value, who, device.name):
        tensor = _runtime.Tensor.from_array(value, device, who)
    check_meta(meta_of(tensor), spec)
    return tensor


def _check_on_host(value: Any, spec: FeedSpec, device: _runtime.Device, context: Context) -> None:
    place = find_place(value, context)
    if place is None:
        return
    here, there = device.name, place_text(*place, context)
    if isinstance(value, (_runtime.Tensor, _runtime.ScopeVariable)):
        other = value.opened_device or device
        here, there = device.name_beside(other), other.name_beside(device)
    raise FeedError(
        f"feed {spec.name!r}: an array must lie on the host or on {here}, where the "
        f"network runs, got {type(value).__name__} on {there}; copy it, or compile for its device"
    )


def find_place(value: Any, context: Context) -> tuple[int, int] | None:
    """Return DLPack's device of an array that does not lie on the host, None for all else."""
    if isinstance(value, _HOST_KINDS):
        return None
    if not hasattr(value, "__dlpack_device__"):
        return find_interface_place(value, context)
    code, number = map(int, value.__dlpack_device__())
    return None if code in HOST_CODES else (code, number)


def place_text(code: int, number: int, context: Context) -> str:
    """A device of DLPack as messages show it: by its name where somebody brings it."""
    name = find_device_name(code, number, context)
    return str(name) if name else f"DLPack device type {code}, number {number}"
