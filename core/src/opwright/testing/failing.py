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
