"""Prepares one kernel for given metas, without a network, for tools that run a single kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from opwright._runtime import Prepared
from opwright.context.context import Context
from opwright.describe.meta import Meta
from opwright.describe.op_proto import VarProto
from opwright.lowering.failure import StepErrors
from opwright.lowering.graph.values import LoweredOp, Value, new_value
from opwright.lowering.kernels.arguments import Arguments
from opwright.lowering.kernels.prepare import prepare_kernel
from opwright.lowering.kernels.prepare_context import Refuse
from opwright.lowering.request import Target
from opwright.packages import ANY
from opwright.registry import HOST_DEVICE, DeviceName, KernelEntry

SlotMetas = Sequence[Sequence[Meta]]


class PreparedKernel(NamedTuple):
    """A kernel that is prepared for one operator.

    Attributes
    ----------
    prepared : Prepared
        The prepared kernel of a plan's step.
    errors : StepErrors
        Creates the errors of failed steps; the plan with the kernel is built with it.
    """

    prepared: Prepared
    errors: StepErrors


def prepare_one(
    entry: KernelEntry,
    metas: tuple[SlotMetas, SlotMetas],
    attrs: Mapping[str, Any],
    *,
    context: Context,
    device: str | None = None,
    n_threads: int = 0,
    packable: tuple[int, ...] = (),
    options: tuple[tuple[str, Any], ...] | None = None,
    deterministic: bool | None = None,
) -> PreparedKernel:
    """Prepare a kernel for an operator with these metas and attributes.

    Parameters
    ----------
    entry : KernelEntry
    metas : (sequence, sequence)
        The metas of the inputs and of the outputs: for each slot a sequence of Meta.
    attrs : mapping of str to value
        Complete attributes.
    context : Context
        Where operator and device are registered.
    device : str, optional
        Device type; by default the kernel's device, or the host for a kernel of any device.
    n_threads : int
        Number of threads that the kernel may use; 0 for the number of the process.
    packable : tuple of int
        Flat inputs that the kernel may pack.
    options : tuple of (str, value), optional
        The options that differ from their defaults; by default the context's.
    deterministic : bool, optional
        Whether results must not depend on the number of threads; by default
        OPWRIGHT_DETERMINISTIC decides.

    Raises
    ------
    Refuse
        If the kernel refuses, with its reason.
    OpwrightError
        If ``prepare`` fails.
    """
    kind = device or (HOST_DEVICE if entry.device == ANY else entry.device)
    definition = context.ops.get(entry.op_type)
    op = LoweredOp(definition, _new_values(definition.proto.inputs, metas[0]), dict(attrs), 0)
    op.outputs = _new_values(definition.proto.outputs, metas[1])
    op.entry = entry
    target = Target(
        context,
        DeviceName(kind),
        options=options,
        deterministic=deterministic,
        n_threads=n_threads,
    )
    prepared = prepare_kernel(entry, op, kind, Arguments(packable), target)
    if isinstance(prepared, Refuse):
        raise prepared
    return PreparedKernel(prepared, StepErrors([op], kind, {}))


def _new_values(slots: Sequence[VarProto], metas: SlotMetas) -> tuple[tuple[Value, ...], ...]:
    pairs = zip(slots, metas, strict=True)
    return tuple(tuple(new_value(slot.name, meta) for meta in listed) for slot, listed in pairs)
