"""The backend of ``torch.compile(model, backend="opwright")``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from opwright.errors import SettingError
from opwright_torch.capture import CaptureError, capture
from opwright_torch.plans.building import make_job
from opwright_torch.plans.forward import check_options
from opwright_torch.plans.region import Region, Uncaptured


def opwright(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Region | Uncaptured:
    """Compile a model graph to opwright plans; called by `torch.compile`.

    PyTorch runs a graph that cannot be captured, and a warning is issued.

    Parameters
    ----------
    module : torch.fx.GraphModule
        The captured graph.
    example_inputs : sequence
        The example tensors and sizes of the capture.
    options : mapping, optional
        ``options`` of `torch.compile`: the arguments ``passes``, ``fallback``, ``options``,
        ``deterministic`` and ``lock`` of `opwright.Network.compile`.
    mode : str, optional
        ``mode`` of `torch.compile`; only ``"default"`` is supported.

    Raises
    ------
    SettingError
        If an option or the mode is unknown.
    """
    if mode not in (None, "default"):
        raise SettingError(f"opwright: mode must be 'default', got {mode!r}; omit it")
    given = check_options("opwright", options)
    try:
        captured = capture(module, example_inputs)
        job = make_job(captured, example_inputs)
    except CaptureError as error:
        return Uncaptured(module, str(error))
    return Region(captured, job, given)
