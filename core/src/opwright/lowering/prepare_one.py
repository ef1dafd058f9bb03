"""Prepares one kernel for given metas, outside of any network: for tools that run it alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from opwright.lowering.failure import StepErrors
from opwright.lowering.graph.values import LoweredOp, new_value
from opwright.lowering.kernels.prepare import prepare_kernel
from opwright.lowering.request import Target
from opwright.plugins.threads import is_deterministic
from opwright.registry import ANY, HOST_DEVICE, DeviceName
from opwright.registry.prepare_context import Refuse

if TYPE_CHECKING:
    from opwright._runtime import Prepared
    from opwright.describe.meta import Meta
    from opwright.plugins.context import Context
    from opwright.registry import KernelEntry

    SlotMetas = Sequence[Sequence[Meta]]


class PreparedKernel(NamedTuple):
    """A kernel made ready for one operator.

    Attributes
    ----------
    prepared : Prepared
        What a step of a plan runs.
    errors : StepErrors
        What the plan is built with: it makes the error of a step that fails.
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
    """Make a kernel ready for an operator of these metas and attributes.

    Parameters
    ----------
    entry : KernelEntry
    metas : (sequence, sequence)
        Of the inputs and of the outputs: for each slot of the operator a sequence of Meta.
    attrs : mapping of str to value
        Complete attributes.
    context : Context
        Where operator and device are registered.
    device : str, optional
        Device type to run on; by default the kernel's, the host for one of any device.
    n_threads : int
        How many threads the kernel may use; 0 for those of the process.
    packable : tuple of int
        Flat inputs that the kernel may pack.
    options : tuple of (str, value), optional
        Those that differ from their defaults; by default those of the context.
    deterministic : bool, optional
        Whether results must not depend on the number of threads; by default what the environment
        says.

    Raises
    ------
    Refuse
        Where the kernel refuses, with its reason.
    OpwrightError
        Where ``prepare`` fails.
    """
    kind = device or (HOST_DEVICE if entry.device == ANY else entry.device)
    definition = context.ops.get(entry.op_type)
    inputs, outputs = (
        tuple(
            tuple(new_value(slot.name, meta) for meta in listed)
            for slot, listed in zip(slots, side, strict=True)
        )
        for slots, side in zip(
            (definition.proto.inputs, definition.proto.outputs), metas, strict=True
        )
    )
    op = LoweredOp(definition, inputs, dict(attrs), 0)
    op.outputs = outputs
    op.entry = entry
    target = Target(
        context,
        DeviceName(kind),
        options=options,
        deterministic=is_deterministic() if deterministic is None else deterministic,
        n_threads=n_threads,
    )
    prepared = prepare_kernel(entry, op, kind, packable, target)
    if isinstance(prepared, Refuse):
        raise prepared
    return PreparedKernel(prepared, StepErrors([op], kind))
