"""Finds why a kernel fails, and whether values, attributes or the machine are the cause."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from opwright.errors import DeviceNotFoundError, MissingRequirementError, OpwrightError
from opwright.kernel import KernelEntry, Refuse
from opwright_kit.testing.results.scorecard import Skipped
from opwright_kit.testing.samples.sample import Sample

if TYPE_CHECKING:
    from opwright_kit.testing.observation.context import CheckContext


_CORE: Final = "opwright"


@contextmanager
def skipping_lacks(entry: KernelEntry) -> Iterator[None]:
    """Raise Skipped instead of an error that is caused by the machine and not by the kernel.

    The reason names the missing part: a device, a module of another package, or the text of the
    plugin's MissingRequirementError.
    """
    try:
        yield
    except OpwrightError as error:
        lack = _find_lack(error, entry)
        if lack is None:
            raise
        text = " ".join(str(lack).split())
        raise Skipped(f"this machine lacks what the kernel needs: {text}") from error


def _find_lack(error: OpwrightError, entry: KernelEntry) -> BaseException | None:
    """Return the error that reports a missing requirement, preferably the plugin's own, or None."""
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__) is not None:
        causes.append(cause)
    lacks = [cause for cause in causes if _is_lack(cause, entry)]
    reported = [lack for lack in lacks if isinstance(lack, OpwrightError)]
    return (reported or lacks)[-1] if lacks else None


def _is_lack(error: BaseException, entry: KernelEntry) -> bool:
    if not isinstance(error, ModuleNotFoundError):
        return isinstance(error, DeviceNotFoundError | MissingRequirementError)
    own = (_CORE, entry.origin.partition(".")[0])
    return error.name is not None and error.name.partition(".")[0] not in own


def reason_of(error: BaseException) -> str:
    """Describe in one line why a kernel failed, by the exception that it raised, if any."""
    cause = error.__cause__
    text = f"{type(cause).__name__}: {cause}" if cause is not None else str(error)
    return " ".join(text.split())


def find_failure(entry: KernelEntry, sample: Sample, context: CheckContext) -> str | None:
    """Return why a kernel fails; None if it runs, refuses, or fails only because of integers."""
    try:
        context.run(entry, sample)
    except Refuse:
        return None
    except OpwrightError as error:
        return None if depends_on_values(entry, sample, context) else reason_of(error)
    return None


def depends_on_values(entry: KernelEntry, sample: Sample, context: CheckContext) -> bool:
    """Return whether a kernel fails because of integer inputs, which may be invalid positions.

    The integers are drawn without knowledge of their meaning. With zeros instead the kernel must
    work, unless another input has no elements, so no position is valid.
    """
    arrays = [a for slot_arrays in sample.inputs.values() for a in slot_arrays]
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


def is_refused_elsewhere(entry: KernelEntry, sample: Sample, context: CheckContext) -> bool:
    """Return whether the first other kernel of the operator fails on a sample.

    Kernels that refuse the sample are skipped.
    """
    for other in context.references(entry.op_type, sample.dtype, entry):
        try:
            context.run(other, sample)
        except Refuse:
            continue
        except OpwrightError:
            return True
        return False
    return False


def depends_on_attributes(entry: KernelEntry, sample: Sample, context: CheckContext) -> bool:
    """Return whether a failing kernel works if all attributes with defaults have their defaults."""
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
    """Return whether a Python kernel failed because it wrote to a read-only input."""
    cause = error.__cause__
    return isinstance(cause, ValueError) and "read-only" in str(cause)
