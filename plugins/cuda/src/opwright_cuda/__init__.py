"""The CUDA kernels of opwright, and tools for writing more CUDA kernels.

A kernel is a class (or a `Kernel` made from a function) whose ``prepare`` adds launches to a plan.
Sources are compiled at first use, and plans run without Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opwright_cuda._version import __version__

if TYPE_CHECKING:
    from opwright_cuda.launch import Kernel, LaunchPlan, Pointer, Struct
    from opwright_cuda.source import Source

__all__ = ["Kernel", "LaunchPlan", "Pointer", "Source", "Struct", "__version__"]


def __getattr__(name: str) -> Any:
    """Import at first use, since plugin discovery imports this package."""
    if name == "Source":
        from opwright_cuda.source import Source

        return Source
    if name in __all__:
        from opwright_cuda import launch

        return getattr(launch, name)
    raise AttributeError(f"module 'opwright_cuda' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
