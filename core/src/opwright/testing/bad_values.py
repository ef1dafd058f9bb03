"""Whole numbers that an operator must refuse: positions outside of what they point into.

No shape rule sees a value, so a kernel refuses it while it runs, or else writes where it must not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from opwright.definition import OpDefinition
from opwright.errors import OpwrightError
from opwright.kernel import Refuse
from opwright.registry import KernelEntry
from opwright.testing.gradient_samples import find_forward
from opwright.testing.sample import Array, Sample

if TYPE_CHECKING:
    from opwright.context import Context
    from opwright.testing.context import CheckContext


class BadValue(NamedTuple):
    """A sample of which one number is likely to be out of range.

    Attributes
    ----------
    slot : str
    value : int
    sample : Sample
        With the value in the first place of the slot.
    is_declared : bool
        Whether the package says that it must be refused.
    """

    slot: str
    value: int
    sample: Sample
    is_declared: bool

    def must_be_refused(self, entry: KernelEntry, context: CheckContext) -> bool:
        """Tell whether the package says so, or another kernel refuses it."""
        if self.is_declared:
            return True
        for other in context.references(entry.op_type, self.sample.dtype, entry):
            try:
                context.run(other, self.sample)
            except Refuse:
                continue
            except OpwrightError:
                return True
            return False
        return False


def find_position_slots(definition: OpDefinition, context: Context) -> list[str]:
    """Return the input slots of whole numbers that may be positions, as a user gives them.

    That is none whose dtype selects the kernel, none that is updated, such as a counter of steps,
    and none in which a gradient reads what its operator has written.
    """
    proto = definition.proto
    forward = find_forward(definition.op_type, context)
    given = proto.input_slots if forward is None else forward.proto.input_slots
    updated = {slot.aliases for slot in proto.outputs}
    return [
        slot.name
        for slot in proto.inputs
        if slot.name in given
        and slot.name != proto.dispatch_slot
        and slot.name not in updated
        and not slot.shape_only
        and any(dtype.startswith(("int", "uint")) for dtype in slot.dtypes or ())
    ]


def find_bad_values(
    sample: Sample, slots: list[str]
) -> Iterator[tuple[tuple[str, bool], BadValue]]:
    """Give values beyond either end of every axis, or those that are declared, with what they try.

    The first item is the slot, and whether the value is above: one of each is enough.
    """
    dims = [d for arrays in sample.inputs.values() for a in arrays for d in a.shape]
    beyond = max(dims, default=1) + 1
    for slot in slots:
        declared = sample.refused.get(slot)
        arrays = sample.inputs.get(slot, ())
        if not arrays or not arrays[0].size or arrays[0].dtype.kind not in "iu":
            continue
        for value in declared or (beyond, -beyond):
            if arrays[0].dtype.kind == "i" or value >= 0:
                inputs = {**sample.inputs, slot: (_with_first(arrays[0], value), *arrays[1:])}
                label = f"{slot} holds {value}"
                changed = replace(sample, inputs=inputs, label=label)
                yield (slot, value > 0), BadValue(slot, value, changed, declared is not None)


def _with_first(array: Array, value: int) -> Array:
    changed: Array = np.array(array)
    changed.reshape(-1)[0] = value
    return changed
