"""Training on a Ray cluster, with workers that an opwright-dist engine connects.

::

    from opwright_ray import OpwrightTrainer

    result = OpwrightTrainer(train, num_workers=4, max_failures=2).fit()
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from opwright_ray._version import __version__

if TYPE_CHECKING:
    from opwright_ray.reporting import report, resume
    from opwright_ray.trainer import OpwrightTrainer

_HOMES = {"OpwrightTrainer": "trainer", "report": "reporting", "resume": "reporting"}
"""Imported at first use, since discovery imports this package only for its table."""

__all__ = ["OpwrightTrainer", "__version__", "report", "resume"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'opwright_ray' has no attribute {name!r}")
    return getattr(import_module(f"opwright_ray.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
