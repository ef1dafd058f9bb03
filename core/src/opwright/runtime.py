"""The C++ runtime's types and functions that tools need: to build a plan by themselves, say."""

from __future__ import annotations

from opwright._runtime import (
    ARENA,
    CAPTURED,
    CHECK_TENSORS,
    DYNAMIC,
    EXTERNAL,
    FEED,
    FETCH,
    NONE,
    PERSISTABLE,
    CompiledNetwork,
    Device,
    Plan,
    PlanBuilder,
    Prepared,
    Scope,
    Tensor,
    Watch,
    free_retired,
    host_device,
    prepare_python,
)

__all__ = [
    "ARENA",
    "CAPTURED",
    "CHECK_TENSORS",
    "DYNAMIC",
    "EXTERNAL",
    "FEED",
    "FETCH",
    "NONE",
    "PERSISTABLE",
    "CompiledNetwork",
    "Device",
    "Plan",
    "PlanBuilder",
    "Prepared",
    "Scope",
    "Tensor",
    "Watch",
    "free_retired",
    "host_device",
    "prepare_python",
]
