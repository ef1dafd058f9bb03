"""Registrations of opwright-nccl."""

from __future__ import annotations

from opwright import plugin
from opwright_dist.names import ENGINE_KERNELS


@plugin.hookimpl
def opwright_kernels(registry: plugin.KernelRegistrar) -> None:
    """Register the kernels of the native library."""
    for name, dtypes in ENGINE_KERNELS.items():
        registry.add(
            f"dist.{name}",
            device="cuda",
            dtypes=dtypes,
            kernel="opwright_nccl/nccl.so",
            library="nccl",
        )


@plugin.hookimpl
def opwright_annexes(registry: plugin.AnnexRegistrar) -> None:
    """Register the check of ``opwright doctor``."""
    registry.add("doctor", "nccl", "opwright_nccl.doctor:examine")
