"""Calls operators on arrays of a device: runs them there, and returns arrays of the same library.

Such a call goes through Python each time, since starting work on a device takes longer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from opwright import _runtime
from opwright.describe.op_proto import OpProto
from opwright.device.feeds import meta_of
from opwright.device.incoming import HOST_KINDS, describe_place, find_place, is_array, read_tensor
from opwright.device.opening import find_device_name, open_device
from opwright.device.outgoing import from_numpy_like
from opwright.errors import DeviceNotFoundError, SlotError
from opwright.lowering import LoweredPlan
from opwright.lowering.graph.signature import attrs_key
from opwright.plugins.context import Context
from opwright.registry import DeviceName
from opwright.run.plan_cache import PlanCache

MAX_PLANS = 256
"""Plans cached for an operator, as many as the runtime caches for arrays on the host."""

Given = list[list[Any]]


class Argument(NamedTuple):
    """An input of a call."""

    who: str  # operator and slot, for messages
    value: Any
    place: tuple[int, int] | None  # its DLPack device; None for the host, and for numbers


class Located(NamedTuple):
    """The inputs of a call, and the device of those that are arrays."""

    device: DeviceName
    slots: list[list[Argument]]


class EagerOnDevices:
    """Calls of one operator on arrays of devices.

    `lower` makes a plan from tensors and arrays by slot, attributes, and the name of the device;
    `run` runs it on them, in order.
    """

    def __init__(
        self,
        proto: OpProto,
        context: Context,
        lower: Callable[[Given, dict[str, Any], DeviceName], LoweredPlan],
        run: Callable[[_runtime.Plan, Sequence[Any]], Any],
    ) -> None:
        self._proto = proto
        self._context = context
        self._lower = lower
        self._run = run
        self._plans = PlanCache(MAX_PLANS)

    def clear(self) -> None:
        """Drop the plans."""
        self._plans = PlanCache(MAX_PLANS)

    def locate(self, given: Given) -> Located | None:
        """Return the device of the arrays; None for the host.

        DeviceNotFoundError if no plugin provides it; SlotError if they are on several devices, or
        some of them on the host.
        """
        if all(isinstance(item, HOST_KINDS) for items in given for item in items):
            return None
        slots = []
        for slot, items in zip(self._proto.inputs, given, strict=True):
            who = f"{self._proto.type}: {slot.name}"
            slots.append([Argument(who, v, find_place(v, self._context, who)) for v in items])
        located = [argument for slot in slots for argument in slot]
        placed = ((argument, argument.place) for argument in located if argument.place is not None)
        first, place = next(placed, (None, None))
        if first is None or place is None:
            return None
        for other in located:
            if other.place not in (None, place):
                raise self._mixed(first, other)
        name = self._name(first, place)
        for other in located:
            has_items = is_array(other.value) or isinstance(other.value, (list, tuple))
            if other.place is None and has_items:
                raise self._mixed(first, other)
        return Located(name, slots)

    def call(self, located: Located, attrs: dict[str, Any], hold: Callable[[Given], Given]) -> Any:
        """Run the operator on the device of its arrays; `hold` turns numbers into arrays."""
        device = open_device(located.device, self._context)
        like = next(a.value for slot in located.slots for a in slot if a.place is not None)
        ready = hold(
            [
                [a.value if a.place is None else read_tensor(a.value, device, a.who) for a in slot]
                for slot in located.slots
            ]
        )
        plan = self._plan(located.device, ready, attrs)
        flat = [item for items in ready for item in items]
        return from_numpy_like(self._run(plan.plan, flat), like)

    def _plan(self, name: DeviceName, ready: Given, attrs: dict[str, Any]) -> LoweredPlan:
        metas = tuple(
            tuple((meta_of(item), isinstance(item, _runtime.Tensor)) for item in items)
            for items in ready
        )
        key = (name, metas, attrs_key(attrs), self._context.plan_key())
        plan = self._plans.find(key)
        return plan or self._plans.add(key, self._lower(ready, attrs, name))

    def _name(self, first: Argument, place: tuple[int, int]) -> DeviceName:
        if isinstance(first.value, _runtime.Tensor):
            return DeviceName.parse(first.value.device)
        name = find_device_name(*place, self._context)
        if name is None:
            raise DeviceNotFoundError(
                f"{first.who}: no installed plugin runs operators on arrays of DLPack device type "
                f"{place[0]}, got {type(first.value).__name__}; copy it to the host"
            )
        return name

    def _mixed(self, first: Argument, other: Argument) -> SlotError:
        slot = first.who.rpartition(" ")[2]
        where, there = self._describe(other.place), self._describe(first.place)
        return SlotError(
            f"{other.who}: all arrays of a call must lie on one device, got "
            f"{type(other.value).__name__} on {where} beside {slot} {type(first.value).__name__} "
            f"on {there}; copy one of them"
        )

    def _describe(self, place: tuple[int, int] | None) -> str:
        return "the host" if place is None else describe_place(*place, self._context)
