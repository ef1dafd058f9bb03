"""Registrations of opwright-nccl."""

from __future__ import annotations

from opwright import plugin

NUMBERS = ("float16", "bfloat16", "float32", "float64", "int32", "int64")
KERNELS: dict[str, tuple[str, ...] | str] = {
    "all_reduce": NUMBERS,
    "all_reduce_start": NUMBERS,
    "all_reduce_wait": NUMBERS,
    "shard": NUMBERS,
    "reduce_shard": NUMBERS,
    "reduce_shard_start": NUMBERS,
    "reduce_shard_wait": NUMBERS,
    "unshard": NUMBERS,
    "unshard_start": NUMBERS,
    "unshard_wait": NUMBERS,
    "all_gather": NUMBERS,
    "reduce_scatter": NUMBERS,
    "all_to_all": NUMBERS,
    "broadcast": "*",
    "barrier": "*",
    "compare_plans": ("int64",),
    "part": ("int64",),
}
"""The operators, without ``dist.``, and their dtypes."""


@plugin.hookimpl
def opwright_kernels(registry: plugin.KernelRegistrar) -> None:
    """Register the kernels of the library."""
    for name, dtypes in KERNELS.items():
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
