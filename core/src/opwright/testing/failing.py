"""Kernels that fail: for what reason, and whether the numbers or the shapes are to blame."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from opwright.errors import OpwrightError
from opwright.kernel import Refuse
from opwright.registry import KernelEntry
from opwright.testing.sample import Sample

if TYPE_CHECKING:
    from opwright.testing.context import CheckContext


def reason_of(error: BaseException) -> str:
    """Return in one line why a kernel failed: what it raised itself, if it raised anything."""
    cause = error.__cause__
    text = f"{type(cause).__name__}: {cause}" if cause is not None else str(error)
    return " ".join(text.split())


def find_failure(entry: KernelEntry, sample: Sample, context: CheckContext) -> str | None:
    """Return why a kernel fails; None where it runs, refuses, or fails for its integers alone."""
    try:
        context.run(entry, sample)
    except Refuse:
        return None
    except OpwrightError as error:
        return None if depends_on_values(entry, sample, context) else reason_of(error)
    return None


def depends_on_values(entry: KernelEntry, sample: Sample, context: CheckContext) -> bool:
    """Tell whether a kernel fails for its integers, which may be positions outside of a range.

    They are drawn without knowledge of what they mean. With zeros in their place it must work,
    unless there is no position at all, where another input has no elements.
    """
    arrays = [a for listed in sample.inputs.values() for a in listed]
    whole = [a for a in arrays if a.dtype.kind in "iu" and a.size]
    if not whole or any(a.size == 0 for a in arrays):
        return bool(whole)
    inputs = {
        slot: tuple(np.zeros_like(a) if a.dtype.kind in "iu" else a for a in arrays)
        for slot, arrays in sample.inputs.items()
    }
    try:
        context.run(entry, replace(sample, inputs=inputs))
    except Refuse:
        return True
    except OpwrightError:
        return False
    return True


def depends_on_attributes(entry: KernelEntry, sample: Sample, context: CheckContext) -> bool:
    """Tell whether a kernel that fails works with the default of every attribute that has one."""
    definition = context.context.ops.get(sample.op_type)
    defaults = {attr.name: attr.default for attr in definition.proto.attrs if attr.has_default}
    attrs = {**sample.attrs, **defaults}
    if attrs == sample.attrs:
        return False
    changed = replace(sample, attrs=attrs)
    try:
        changed.infer(definition)
        context.run(entry, changed)
    except (Refuse, OpwrightError):
        return False
    return True


def writes_input(error: BaseException) -> bool:
    """Tell whether a Python kernel failed as it wrote an input, which it is given as read-only."""
    cause = error.__cause__
    return isinstance(cause, ValueError) and "read-only" in str(cause)
