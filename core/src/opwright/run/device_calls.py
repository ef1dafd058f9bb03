"""Operators called directly on arrays that lie on a device: run there, and given back as they came.

Such a call goes through Python each time: to start work on a device costs more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from opwright import _runtime
from opwright.device.arrays import from_numpy_like, is_array, reading
from opwright.device.device_feeds import find_place, place_text
from opwright.device.feeds import meta_of
from opwright.device.opening import find_device_name, open_device
from opwright.errors import DeviceNotFoundError, SlotError
from opwright.lowering.graph.signature import attrs_key
from opwright.registry import DeviceName
from opwright.run.plan_cache import PlanCache

if TYPE_CHECKING:
    from opwright.describe.op_proto import OpProto
    from opwright.lowering import LoweredPlan
    from opwright.plugins.context import Context

MAX_PLANS = 256
"""Plans kept for an operator, as many as the runtime keeps for arrays on the host."""

Given = list[list[Any]]


class DeviceCalls:
    """Calls of one operator on arrays of devices.

    Parameters
    ----------
    proto : OpProto
    context : Context
    lower : callable
        Makes the plan: from tensors and arrays by slot, attributes, and the name of the device.
    run : callable
        Runs it on them, in order.
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
        """Forget the plans."""
        self._plans = PlanCache(MAX_PLANS)

    def find_device(self, given: Given) -> DeviceName | None:
        """Return the name of the device where the arrays lie; None for the host.

        Raises
        ------
        DeviceNotFoundError
            Where nobody brings that device.
        SlotError
            Where they lie on several, or an array on the host is among them.
        """
        first: tuple[str, Any, tuple[int, int]] | None = None
        for who, item in self._items(given):
            place = self._place_of(item, who)
            if place is not None:
                first = first or (who, item, place)
                if place != first[2]:
                    self._fail_mixed(first, who, item, place_text(*place, self._context))
        if first is None:
            return None
        who, item, place = first
        if isinstance(item, _runtime.Tensor):
            name: DeviceName | None = DeviceName.parse(item.device)
        else:
            name = find_device_name(*place, self._context)
        if name is None:
            raise DeviceNotFoundError(
                f"{who}: no installed plugin runs operators on arrays of DLPack device type "
                f"{place[0]}, got {type(item).__name__}; copy it to the host"
            )
        for other, value in self._items(given):
            if self._place_of(value) is None and (
                is_array(value) or isinstance(value, (list, tuple))
            ):
                self._fail_mixed(first, other, value, "the host")
        return name

    def call(
        self, name: DeviceName, given: Given, attrs: dict[str, Any], hold: Callable[[Given], Given]
    ) -> Any:
        """Run the operator on the device of this name.

        `hold` makes numbers arrays that go with tensors.
        """
        device = open_device(name, self._context)
        like = next(item for _, item in self._items(given) if self._place_of(item) is not None)
        ready = hold(
            [
                [self._take(item, device, f"{self._proto.type}: {slot.name}") for item in items]
                for slot, items in zip(self._proto.inputs, given, strict=True)
            ]
        )
        plan = self._plan(name, ready, attrs)
        flat = [item for items in ready for item in items]
        return from_numpy_like(self._run(plan.plan, flat), like)

    def _take(self, item: Any, device: _runtime.Device, who: str) -> Any:
        """An array on the device as a tensor, all else as it is."""
        if self._place_of(item) is None:
            return item
        with reading(item, who, device.name):
            return _runtime.Tensor.from_array(item, device, who)

    def _plan(self, name: DeviceName, ready: Given, attrs: dict[str, Any]) -> LoweredPlan:
        metas = tuple(
            tuple((meta_of(item), isinstance(item, _runtime.Tensor)) for item in items)
            for items in ready
        )
        key = (name, metas, attrs_key(attrs), self._context.plan_key())
        plan = self._plans.find(key)
        return plan or self._plans.add(key, self._lower(ready, attrs, name))

    def _place_of(self, item: Any, who: str = "") -> tuple[int, int] | None:
        with reading(item, who):
            return find_place(item, self._context)

    def _items(self, given: Given) -> Iterator[tuple[str, Any]]:
        for slot, items in zip(self._proto.inputs, given, strict=True):
            for item in items:
                yield f"{self._proto.type}: {slot.name}", item

    def _fail_mixed(
        self, first: tuple[str, Any, tuple[int, int]], who: str, item: Any, where: str
    ) -> NoReturn:
        slot = first[0].rpartition(" ")[2]
        there = place_text(*first[2], self._context)
        raise SlotError(
            f"{who}: all arrays of a call must lie on one device, got {type(item).__name__} on "
            f"{where} beside {slot} {type(first[1]).__name__} on {there}; copy one of them"
        )
