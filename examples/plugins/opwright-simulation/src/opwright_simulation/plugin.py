"""Registrations of opwright-simulation."""

from __future__ import annotations

from opwright import plugin
from opwright_dist.names import COLLECTIVES, PLAN_OPS


@plugin.hookimpl
def opwright_kernels(registry: plugin.KernelRegistrar) -> None:
    """Register the kernels of a rehearsal for every device."""
    for name in (*COLLECTIVES, *PLAN_OPS):
        registry.add(
            f"dist.{name}",
            device="*",
            dtypes="*",
            kernel="opwright_simulation.rehearsals:Rehearsed",
            library="rehearsal",
            priority=0,
        )
