"""Reads the arguments of an eager call on the device of its arrays, which must be on one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from opwright import _runtime
from opwright.context.context import Context
from opwright.describe.op_proto import OpProto
from opwright.device.intake import HOST_KINDS, describe_place, find_place, is_array, read_tensor
from opwright.device.opening import find_device_name, open_device
from opwright.errors import DeviceNotFoundError, SlotError
from opwright.registry import DeviceName


class Argument(NamedTuple):
    """An input of a call."""

    who: str  # operator and slot, for messages
    value: Any
    place: tuple[int, int] | None  # its DLPack device; None for the host, and for numbers


def read_on_device(
    proto: OpProto, given: Sequence[Sequence[Any]], context: Context
) -> tuple[list[list[Any]], Any] | None:
    """Return the inputs by slot, arrays as tensors on their device, and the first array.

    None if they are on the host.
    DeviceNotFoundError if no plugin provides it; SlotError if they are on several devices, or some
    of them on the host.
    """
    if all(isinstance(item, HOST_KINDS) for items in given for item in items):
        return None
    slots = []
    for slot, items in zip(proto.inputs, given, strict=True):
        who = f"{proto.type}: {slot.name}"
        slots.append([Argument(who, v, find_place(v, context, who)) for v in items])
    arguments = [argument for slot in slots for argument in slot]
    first = next((argument for argument in arguments if argument.place is not None), None)
    if first is None or first.place is None:
        return None
    for other in arguments:
        if other.place not in (None, first.place):
            raise _mixed(first, other, context)
    name = _name(first, first.place, context)
    for other in arguments:
        has_items = is_array(other.value) or isinstance(other.value, (list, tuple))
        if other.place is None and has_items:
            raise _mixed(first, other, context)
    device = open_device(name, context)
    read = [
        [a.value if a.place is None else read_tensor(a.value, device, a.who) for a in slot]
        for slot in slots
    ]
    return read, first.value


def _name(first: Argument, place: tuple[int, int], context: Context) -> DeviceName:
    if isinstance(first.value, _runtime.Tensor):
        return DeviceName.parse(first.value.device)
    name = find_device_name(*place, context)
    if name is None:
        raise DeviceNotFoundError(
            f"{first.who}: no installed plugin runs operators on arrays of DLPack device type "
            f"{place[0]}, got {type(first.value).__name__}; copy it to the host"
        )
    return name


def _mixed(first: Argument, other: Argument, context: Context) -> SlotError:
    slot = first.who.rpartition(" ")[2]
    where, there = _describe(other.place, context), _describe(first.place, context)
    return SlotError(
        f"{other.who}: all arrays of a call must be on one device, got "
        f"{type(other.value).__name__} on {where} beside {slot} {type(first.value).__name__} "
        f"on {there}; copy one of them"
    )


def _describe(place: tuple[int, int] | None, context: Context) -> str:
    return "the host" if place is None else describe_place(*place, context)
