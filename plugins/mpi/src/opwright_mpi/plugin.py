"""Registrations of opwright-mpi."""

from __future__ import annotations

from opwright import plugin
from opwright_dist.names import ENGINE_KERNELS, NUMBERS

KERNELS = {**ENGINE_KERNELS, "exchange_rows": NUMBERS}
"""The operators, without ``dist.``, and their dtypes."""


@plugin.hookimpl
def opwright_kernels(registry: plugin.KernelRegistrar) -> None:
    """Register the kernels of the native library."""
    for name, dtypes in KERNELS.items():
        registry.add(
            f"dist.{name}",
            device="cpu",
            dtypes=dtypes,
            kernel="opwright_mpi/mpi.so",
            library="mpi",
        )


@plugin.hookimpl
def opwright_annexes(registry: plugin.AnnexRegistrar) -> None:
    """Register the check of ``opwright doctor``."""
    registry.add("doctor", "mpi", "opwright_mpi.doctor:examine")
