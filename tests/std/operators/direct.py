"""Calls a Python kernel that is not registered, through the conformance kit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from case import Array

import opwright as ow
from opwright.errors import KernelError
from opwright.kernel import KernelEntry
from opwright.op import Meta, OpDefinition
from opwright.packages import KernelRegistration
from opwright.plugin import Package
from opwright_kit.testing import Sample, run_kernel

PACKAGE = Package("direct", "tests", "0")


def infer(
    definition: OpDefinition,
    inputs: Mapping[str, Sequence[Array]],
    attrs: Mapping[str, Any],
    counts: Mapping[str, int],
) -> tuple[tuple[Meta, ...], ...]:
    """Return the metas of all outputs, slot by slot."""
    return make_sample(definition, inputs, attrs, counts).infer(definition)


def make_sample(
    definition: OpDefinition,
    inputs: Mapping[str, Sequence[Array]],
    attrs: Mapping[str, Any],
    counts: Mapping[str, int],
) -> Sample:
    """Return inputs and attributes in the form that the conformance kit expects."""
    arrays = {slot: tuple(listed) for slot, listed in inputs.items()}
    return Sample(definition.op_type, arrays, attrs, counts)


def call(
    kernel: Any,
    definition: OpDefinition,
    inputs: Mapping[str, Sequence[Array]],
    attrs: Mapping[str, Any] | None = None,
    counts: Mapping[str, int] | None = None,
    reuse: Sequence[tuple[str, str]] = (),
) -> dict[str, list[Array]]:
    """Run a kernel and return its outputs by slot; its exceptions propagate.

    Parameters
    ----------
    kernel : function or class
        As registered.
    definition : OpDefinition
        The definition of its operator.
    inputs : mapping
        Arrays by slot, passed read-only.
    attrs : mapping, optional
        Attributes that differ from the defaults.
    counts : mapping, optional
        Number of variables in output slots, 1 if not given.
    reuse : sequence of (output, input)
        Outputs in the memory of an input, besides aliases.
    """
    filled = definition.proto.fill_attrs(dict(attrs or {}))
    sample = make_sample(definition, inputs, filled, counts or {})
    registration = KernelRegistration(
        definition.op_type, "cpu", ("*",), "direct", kernel, priority=0
    )
    entry = KernelEntry(registration, "*", PACKAGE, ow.current_context().ops)
    try:
        return run_kernel(entry, sample, reuse=reuse).outputs
    except KernelError as error:
        raise (error.__cause__ or error) from None
