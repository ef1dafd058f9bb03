"""opwright-kit: for authors of operators, kernels and devices.

A conformance kit, templates, timings, drawings, profiles, stubs and isolated kernels, mostly used
by commands such as ``opwright check``. Names are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from opwright_kit._version import __version__

if TYPE_CHECKING:
    from opwright_kit.drawing import DrawnLayer, LayerDrawing
    from opwright_kit.drawing import frame_program as frame
    from opwright_kit.drawing import write_page as draw
    from opwright_kit.isolation import prepare_isolated
    from opwright_kit.profiling import profile
    from opwright_kit.reads import check_reads
    from opwright_kit.testing import check_package, run_kernel

_HOMES = {
    "DrawnLayer": ("opwright_kit.drawing", "DrawnLayer"),
    "LayerDrawing": ("opwright_kit.drawing", "LayerDrawing"),
    "check_package": ("opwright_kit.testing", "check_package"),
    "check_reads": ("opwright_kit.reads", "check_reads"),
    "draw": ("opwright_kit.drawing", "write_page"),
    "frame": ("opwright_kit.drawing", "frame_program"),
    "prepare_isolated": ("opwright_kit.isolation", "prepare_isolated"),
    "profile": ("opwright_kit.profiling", "profile"),
    "run_kernel": ("opwright_kit.testing", "run_kernel"),
}

__all__ = [
    "DrawnLayer",
    "LayerDrawing",
    "__version__",
    "check_package",
    "check_reads",
    "draw",
    "frame",
    "prepare_isolated",
    "profile",
    "run_kernel",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'opwright_kit' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
