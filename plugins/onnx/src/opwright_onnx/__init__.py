"""Loads ONNX models as opwright programs, and saves programs as ONNX models.

::

    import opwright_onnx

    model = opwright_onnx.load("resnet50.onnx")
    (scores,) = model(images)
    opwright_onnx.save("mine.onnx", program, scope, fetch=[prob])
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from opwright_onnx._version import __version__

if TYPE_CHECKING:
    from opwright_onnx.errors import ModelError, UnsupportedError, ValueNeededError
    from opwright_onnx.opening import load
    from opwright_onnx.saving import SaveReport, save

_HOMES = {
    "ModelError": "errors",
    "SaveReport": "saving",
    "UnsupportedError": "errors",
    "ValueNeededError": "errors",
    "load": "opening",
    "save": "saving",
}
"""Imported at first use, since discovery imports this package only for its table."""

__all__ = [
    "ModelError",
    "SaveReport",
    "UnsupportedError",
    "ValueNeededError",
    "__version__",
    "load",
    "save",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'opwright_onnx' has no attribute {name!r}")
    return getattr(import_module(f"opwright_onnx.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
