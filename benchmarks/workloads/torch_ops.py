"""The fixed cost of a call of `opwright_torch.ops.add`, with and without autograd."""

from __future__ import annotations

from functools import partial

import numpy as np

from peers import find_peers
from workload import Goal, Timed, Workload

A = np.linspace(-1, 1, 8, dtype="float32")
B = np.linspace(2, 3, 8, dtype="float32")


def timed(is_recorded: bool, is_ours: bool) -> Timed:
    """Return an addition of two tensors, looked up at each call, as in typical code."""
    if is_ours:
        find_peers()
    import torch

    a, b = torch.from_numpy(A), torch.from_numpy(B).requires_grad_(is_recorded)
    torch.set_grad_enabled(is_recorded)
    if not is_ours:
        return Timed(lambda: torch.add(a, b), values=torch.add(a, b).tolist())
    import opwright_torch

    return Timed(lambda: opwright_torch.ops.add(a, b), values=opwright_torch.ops.add(a, b).tolist())


WORKLOADS = [
    Workload(
        "ops-torch",
        "opwright_torch.ops.add on two tensors of 8 floats, without autograd",
        "ns",
        {"opwright": partial(timed, False, True), "torch": partial(timed, False, False)},
        {"opwright": [Goal(ratio=1.4), Goal(figure=2000)]},
    ),
    Workload(
        "ops-torch-recorded",
        "the same where autograd records",
        "ns",
        {"opwright": partial(timed, True, True), "torch": partial(timed, True, False)},
        {"opwright": [Goal(figure=7000)]},
    ),
]
