"""Runs opwright operators on PyTorch tensors, and PyTorch models as opwright plans.

::

    import torch, opwright_torch

    opwright_torch.ops.relu(torch.randn(8, requires_grad=True)).sum().backward()
    fast = torch.compile(model, backend="opwright")
    print(opwright_torch.report(fast))
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from opwright_torch._version import __version__

if TYPE_CHECKING:
    from opwright_torch import ops
    from opwright_torch.module import Module
    from opwright_torch.ops.library import define_operators
    from opwright_torch.plans.kept import refresh
    from opwright_torch.programs.program import to_program, to_state_dict
    from opwright_torch.reporting import report
    from opwright_torch.training.step import TrainStep, train_step

_HOMES = {
    "Module": "module",
    "TrainStep": "training.step",
    "define_operators": "ops.library",
    "refresh": "plans.kept",
    "report": "reporting",
    "train_step": "training.step",
    "to_program": "programs.program",
    "to_state_dict": "programs.program",
}
"""Imported at first use, since discovery imports this package only for its table."""

__all__ = [
    "Module",
    "TrainStep",
    "__version__",
    "define_operators",
    "ops",
    "refresh",
    "report",
    "to_program",
    "to_state_dict",
    "train_step",
]


def __getattr__(name: str) -> Any:
    if name == "ops":
        return import_module("opwright_torch.ops")
    if name not in _HOMES:
        raise AttributeError(f"module 'opwright_torch' has no attribute {name!r}")
    return getattr(import_module(f"opwright_torch.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
