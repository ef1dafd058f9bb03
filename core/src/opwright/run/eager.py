"""Calls one operator: appends it to the block for Variables, and runs it at once for arrays.

The runtime finds one-operator plans by shapes, dtypes and attributes. The runtime calls this code
only to lower a new combination, and for arguments that it cannot read: Variables, numbers, lists,
arrays on devices, and arrays that only have ``__dlpack__``. Then the runtime continues.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from opwright import _runtime
from opwright.context.context import Context
from opwright.describe.definition import OpDefinition
from opwright.describe.dtypes import Array
from opwright.describe.meta import Meta
from opwright.describe.op_proto import OpProto, VarProto
from opwright.describe.operands import list_items
from opwright.device.intake import (
    HOST_KINDS,
    describe_place,
    find_place,
    hold,
    is_array,
    lend,
    meta_of,
    read_host,
    read_tensor,
)
from opwright.device.opening import find_device_name, open_device
from opwright.device.outgoing import as_given, from_numpy_like
from opwright.errors import AttributeValueError, DeviceNotFoundError, DtypeError, SlotError
from opwright.lowering import Fetches, Given, LowerRequest, Target, lower
from opwright.program import Operator, Variable, default_main_program
from opwright.program.calls import append_call, expected_dtype
from opwright.program.guards import is_program_guarded
from opwright.records import NamedTuple
from opwright.registry import HOST, DeviceName


class Missing(enum.Enum):
    """Marks a required argument that was not given."""

    VALUE = enum.auto()


class EagerSource:
    """The slow path of an operator function; ``eager`` is the fast path in the runtime.

    `returned` are the outputs to return, in order; by default all outputs that are neither
    intermediate nor optional. With `as_tuple`, even a single output is returned as a tuple. With
    `detach`, arrays that require a gradient are read as their ``detach()``.
    """

    def __init__(
        self,
        definition: OpDefinition,
        context: Context,
        returned: Sequence[VarProto] | None = None,
        as_tuple: bool = False,
        detach: bool = False,
    ) -> None:
        self._definition = definition
        self._context = context
        self._proto = definition.proto
        main = tuple(slot for slot in self._proto.outputs if not slot.intermediate)
        self._returned = main if returned is None else tuple(returned)
        # Lists are flattened into a tuple.
        self.returns_one = len(self._returned) == 1 and not (
            as_tuple or self._returned[0].duplicable
        )
        # Optional outputs exist only on request.
        self._requested = frozenset(
            slot.name
            for slot in returned or ()
            if slot.optional and slot.aliases is None and not slot.duplicable
        )
        self.eager = _runtime.EagerOperator(
            len(self._proto.inputs),
            sum(1 << i for i, slot in enumerate(self._proto.inputs) if slot.duplicable),
            self.slow,
            self.lower,
            1 if self.returns_one else 2,
            as_given,
            context.epoch,
            self._proto.type,
            detach,
        )

    @property
    def call(self) -> Callable[..., Any]:
        """The callable for the operator function: `eager` if the operator has a required input.

        An operator without required inputs is appended inside a `program_guard`, or if a Variable
        provides a number.
        """
        if any(not slot.optional for slot in self._proto.inputs):
            return self.eager
        if not self._proto.operands:
            return lambda *args: self.slow(*args) if is_program_guarded() else self.eager(*args)
        return lambda *args: (
            self.slow(*args) if is_program_guarded() or _variables_in(args) else self.eager(*args)
        )

    def slow(self, *args: Any) -> Any:
        """Run or append the operator for arguments in the order of the OpProto."""
        n_inputs = len(self._proto.inputs)
        given = [self._as_list(s, v) for s, v in zip(self._proto.inputs, args, strict=False)]
        attrs = self._attributes(args[n_inputs:])
        variables = [item for slot in given for item in slot if isinstance(item, Variable)]
        variables += _variables_in(map(attrs.get, self._proto.operands))
        if variables or (not any(given) and is_program_guarded()):
            return self._append(given, attrs, variables)
        return self._run(given, args[n_inputs:])

    def _as_list(self, slot: VarProto, value: Any) -> list[Any]:
        if value is Missing.VALUE or (value is None and not slot.optional):
            raise self._missing(slot)
        if value is None:
            return []
        if not slot.duplicable:
            return [value]
        if isinstance(value, (list, tuple)):
            return list(value)
        raise SlotError(
            f"{self._proto.type}: input {slot.name!r} takes a list, got "
            f"{type(value).__name__}; pass [{slot.name}]"
        )

    def _attributes(self, values: Sequence[Any]) -> dict[str, Any]:
        attrs = {}
        for attr, value in zip(self._proto.attrs, values, strict=True):
            if value is Missing.VALUE:
                raise AttributeValueError(
                    f"{self._proto.type}: attribute {attr.name!r} is required, got none; "
                    f"pass {attr.name}="
                )
            if value is not None:
                attrs[attr.name] = value
        if _variables_in(map(attrs.get, self._proto.operands)):
            return attrs
        return self._proto.fill_attrs(attrs)

    def _append(
        self, given: list[list[Any]], attrs: dict[str, Any], variables: Sequence[Variable]
    ) -> Any:
        """Append to the current block of the variables' program, or of the guarded program."""
        program = variables[0].block.program if variables else default_main_program()
        block = program.current_block()
        op = append_call(block, self._proto, given, attrs, self._requested)
        names = [name for slot in self._returned for name in op.output(slot.name)]
        results = [block.var(name) for name in names]
        return results[0] if self.returns_one else tuple(results)

    def _run(self, given: list[list[Any]], values: Sequence[Any]) -> Any:
        """Read the arguments; the runtime then finds or lowers their plan, and runs it."""
        others = (i for s in given for i in s if is_array(i) and not isinstance(i, np.ndarray))
        like = next(others, None)
        if like is not None:
            given = [[lend(item) for item in items] for items in given]
        on_device = _read_on_device(self._proto, given, self._context)
        if on_device is None:
            arrays = self._read_arrays(given)
        else:
            arrays, like = self._hold_numbers(on_device[0]), on_device[1]
        ready = [
            (slot_arrays if slot.duplicable else slot_arrays[0]) if slot_arrays else None
            for slot, slot_arrays in zip(self._proto.inputs, arrays, strict=True)
        ]
        return from_numpy_like(self.eager.call_ready(*ready, *values), like)

    def _read_arrays(self, given: list[list[Any]]) -> list[list[Array]]:
        """Convert every input to a NumPy array that a kernel can read."""
        # Arrays are read first, because numbers and lists get the dtypes of arrays.
        read = [
            [read_host(v, f"{self._proto.type}: {slot.name}") if is_array(v) else v for v in items]
            for slot, items in zip(self._proto.inputs, given, strict=True)
        ]
        return self._hold_numbers(read)

    def _hold_numbers(self, read: list[list[Any]]) -> list[list[Any]]:
        """Return numbers, lists and NumPy scalars as arrays with the dtypes of other arguments."""
        return [
            [item if is_array(item) else self._hold(slot, item, read) for item in items]
            for slot, items in zip(self._proto.inputs, read, strict=True)
        ]

    def _hold(self, slot: VarProto, value: Any, read: list[list[Any]]) -> Array:
        dtype, beside = expected_dtype(self._proto, slot, read)
        return hold(value, dtype, f"{self._proto.type}: {slot.name}", beside)

    def lower(
        self, values: tuple[Any, ...], counts: Sequence[int], attributes: tuple[Any, ...]
    ) -> _runtime.Plan:
        """Return the plan for ready arrays and attributes; input i has ``counts[i]`` arrays.

        Tensors must be on the device of the operator.
        """
        proto = self._proto
        inputs: dict[str, tuple[str, ...]] = {}
        metas: dict[str, Meta] = {}
        slot_metas: list[tuple[Meta, ...]] = []
        tensors: list[str] = []
        device = HOST
        begin = 0
        for slot, count in zip(proto.inputs, counts, strict=True):
            items = values[begin : begin + count]
            begin += count
            if not items and not slot.optional and not slot.duplicable:
                raise self._missing(slot)
            names = tuple(
                [slot.name] if not slot.duplicable else [f"{slot.name}.{i}" for i in range(count)]
            )[:count]
            slot_metas.append(tuple(self._meta(slot, item) for item in items))
            metas.update(zip(names, slot_metas[-1], strict=True))
            for name, item in zip(names, items, strict=True):
                if isinstance(item, _runtime.Tensor):
                    device = DeviceName.parse(item.device)
                    tensors.append(name)
            if names:
                inputs[slot.name] = names
        attrs = self._attributes(attributes)
        outputs, fetches = self._outputs(
            inputs, self._definition.output_counts(tuple(slot_metas), attrs)
        )
        self._definition.check_slots(inputs, outputs)
        op = Operator.make(None, self._definition, inputs, outputs, attrs)
        request = LowerRequest(
            [op],
            Target(self._context, device, takes_fallback=False),
            Given(metas, on_device=frozenset(tensors), copied=False),  # not recorded
            fetches=Fetches(fetches, on_device=True),
        )
        return lower(request).plan

    def _meta(self, slot: VarProto, value: Any) -> Meta:
        try:
            return meta_of(value)
        except DtypeError as error:
            raise DtypeError(
                f"{self._proto.type}: {slot.name}: must be an array of bools, ints or floats, got "
                f"dtype {value.dtype}; cast it to one of these"
            ) from error

    def _missing(self, slot: VarProto) -> SlotError:
        return SlotError(
            f"{self._proto.type}: input {slot.name!r} is required, got none; pass {slot.name}="
        )

    def _outputs(
        self, inputs: dict[str, tuple[str, ...]], counts: Sequence[int]
    ) -> tuple[dict[str, tuple[str, ...]], list[str]]:
        outputs: dict[str, tuple[str, ...]] = {}
        for slot, count in zip(self._proto.outputs, counts, strict=True):
            if slot.aliases is not None:
                names = inputs.get(slot.aliases, ())
            elif slot.duplicable:
                names = tuple(f"{slot.name}.{i}" for i in range(count))
            else:
                names = (slot.name,) * max(count, slot.name in self._requested)
            if names:
                outputs[slot.name] = names
        return outputs, [n for slot in self._returned for n in outputs.get(slot.name, ())]


def _variables_in(values: Iterable[Any]) -> list[Variable]:
    """Return the Variables among values, and in lists of them."""
    items = [item for value in values for item in list_items(value)]
    return [item for item in items if isinstance(item, Variable)]


# -- arguments on a device -------------------------------------------------------------------------


class _Argument(NamedTuple):
    """An input of a call."""

    who: str  # operator and slot, for messages
    value: Any
    place: tuple[int, int] | None  # its DLPack device; None for the host and for numbers


def _read_on_device(
    proto: OpProto, given: Sequence[Sequence[Any]], context: Context
) -> tuple[list[list[Any]], Any] | None:
    """Return the inputs by slot, with arrays as tensors on their device, and the first array.

    Returns None if all arrays are on the host. Raises DeviceNotFoundError if no plugin provides the
    device, and SlotError if they are on several devices, or only some are on the host.
    """
    if all(isinstance(item, HOST_KINDS) for items in given for item in items):
        return None
    slots = []
    for slot, items in zip(proto.inputs, given, strict=True):
        who = f"{proto.type}: {slot.name}"
        slots.append([_Argument(who, v, find_place(v, context, who)) for v in items])
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


def _name(first: _Argument, place: tuple[int, int], context: Context) -> DeviceName:
    if isinstance(first.value, _runtime.Tensor):
        return DeviceName.parse(first.value.device)
    name = find_device_name(*place, context)
    if name is None:
        raise DeviceNotFoundError(
            f"{first.who}: must be on a device of an installed plugin, got an array of type "
            f"{type(first.value).__name__} on DLPack device type {place[0]}; copy it to the host"
        )
    return name


def _mixed(first: _Argument, other: _Argument, context: Context) -> SlotError:
    slot = first.who.rpartition(" ")[2]
    where, there = _describe(other.place, context), _describe(first.place, context)
    return SlotError(
        f"{other.who}: all arrays of a call must be on one device, got "
        f"{type(other.value).__name__} on {where} next to {slot} {type(first.value).__name__} "
        f"on {there}; copy one of them"
    )


def _describe(place: tuple[int, int] | None, context: Context) -> str:
    return "the host" if place is None else describe_place(*place, context)
