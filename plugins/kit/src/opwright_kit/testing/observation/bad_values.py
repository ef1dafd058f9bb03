"""Integers that an operator must refuse: positions outside of the axis that they index.

No shape rule sees values, so a kernel must refuse them at run time. Otherwise the kernel reads or
writes outside of its arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from opwright.kernel import KernelEntry
from opwright.op import INT_DTYPES, OpDefinition, VarProto
from opwright_kit.testing.observation.failures import is_refused_elsewhere
from opwright_kit.testing.samples.sample import Array, Sample

if TYPE_CHECKING:
    from opwright_kit.testing.observation.context import CheckContext

_FAR: Final = (2**31 - 1, 2**31, 2**62, -(2**31), -(2**63))
"""Values at which sums and products of positions exceed 32 or 64 bits, if the dtype can hold
them."""


class BadValue(NamedTuple):
    """A sample with one integer that is likely to be out of range.

    Attributes
    ----------
    slot : str
    value : int
    sample : Sample
        Its slot has the value in the first element.
    is_declared : bool
        Whether the package declares that it must be refused.
    """

    slot: str
    value: int
    sample: Sample
    is_declared: bool

    @property
    def may_lie_within(self) -> bool:
        """Whether the value may be a valid position by chance."""
        return not self.is_declared and 0 <= self.value < _FAR[0]

    def must_be_refused(self, entry: KernelEntry, context: CheckContext) -> bool:
        """Return whether the package declares the value invalid, or another kernel refuses it."""
        return self.is_declared or is_refused_elsewhere(entry, self.sample, context)


def find_position_slots(definition: OpDefinition) -> list[str]:
    """Return the integer input slots that may hold positions.

    Slots that are updated, such as a counter of steps, are excluded, and so is the slot that
    selects the kernel if it also accepts floats, because it is an operand.
    """
    updated = {slot.aliases for slot in definition.proto.outputs}
    return [
        slot.name
        for slot in definition.proto.inputs
        if _may_hold_positions(slot, slot.name == definition.proto.dispatch_slot)
        and slot.name not in updated
        and not slot.shape_only
    ]


def _may_hold_positions(slot: VarProto, selects: bool) -> bool:
    whole = [dtype in INT_DTYPES for dtype in slot.dtypes]
    return bool(whole) and (all(whole) if selects else any(whole))


def find_bad_values(sample: Sample, slots: list[str]) -> Iterator[tuple[tuple[str, str], BadValue]]:
    """Yield values beyond either end of every axis, or the declared values.

    The first item names the slot and the kind of value: one of each is enough.
    """
    for slot in slots:
        arrays = sample.inputs.get(slot, ())
        if not arrays or not arrays[0].size or arrays[0].dtype.kind not in "iu":
            continue
        declared = sample.refused.get(slot)
        for what, value in _values(sample, declared):
            if _holds(arrays[0], value):
                inputs = {**sample.inputs, slot: (_with_first(arrays[0], value), *arrays[1:])}
                changed = replace(sample, inputs=inputs, label=f"{slot} holds {value}")
                is_declared = declared is not None and value in declared
                yield (slot, what), BadValue(slot, value, changed, is_declared)


def _values(sample: Sample, declared: Sequence[int] | None) -> Iterator[tuple[str, int]]:
    """Yield kinds and values of positions; only a package can declare which axis they index."""
    dims = {d for arrays in sample.inputs.values() for a in arrays for d in a.shape}
    beyond = max(dims, default=1) + 1
    if declared is None:
        yield from (("above", beyond), ("below", -beyond), ("one below", -1))
        yield from ((f"end {i}", dim) for i, dim in enumerate(sorted(dims)))
    else:
        yield from ((f"declared {value > 0}", value) for value in declared)
    yield from ((f"far {value}", value) for value in _FAR)


def _holds(array: Array, value: int) -> bool:
    info = np.iinfo(array.dtype)
    return int(info.min) <= value <= int(info.max)


def _with_first(array: Array, value: int) -> Array:
    changed: Array = np.array(array)
    changed.reshape(-1)[0] = value
    return changed
