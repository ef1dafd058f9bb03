"""The backend of ``torch.compile(model, backend="opwright")``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from opwright_torch.capture import capture
from opwright_torch.plans.building import make_job
from opwright_torch.plans.region import Region


def opwright(
    module: torch.fx.GraphModule, example_inputs: Sequence[Any], *, options: Any = None
) -> Region:
    """Return what runs a graph of a model in plans of opwright; `torch.compile` calls this.

    Parameters
    ----------
    module : torch.fx.GraphModule
        What Dynamo captured.
    example_inputs : sequence
        The tensors and sizes that it was captured with.
    options : mapping, optional
        ``options`` of `torch.compile`: those of `opwright.Network.compile`, such as
        ``deterministic``, ``passes`` and ``options``.
    """
    captured = capture(module, example_inputs)
    return Region(captured, make_job(captured, example_inputs), dict(options or {}))
