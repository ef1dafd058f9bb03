"""Calls a model and its program, and reports the distance between their results."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

import opwright as ow

NEAR = 2e-5
"""The tolerance, relative to the norm of a result: ten times the error of the deepest models."""


def distance(model: torch.nn.Module, program: ow.LoadedProgram, *inputs: torch.Tensor) -> float:
    """Return the largest distance from a PyTorch result, relative to the norm of that result."""
    with torch.no_grad():
        wanted = [leaf for leaf in tree_leaves(model(*inputs)) if isinstance(leaf, torch.Tensor)]
    got = program(*inputs)
    assert [tuple(x.shape) for x in got] == [tuple(x.shape) for x in wanted]
    return max(error(x, y) for x, y in zip(got, wanted, strict=True))


def error(got: Any, wanted: torch.Tensor) -> float:
    """Return the distance between `got` and `wanted`, relative to the norm of `wanted`."""
    expected = wanted.double().numpy()
    difference = np.linalg.norm((np.asarray(got, np.float64) - expected).ravel())
    return float(difference / max(np.linalg.norm(expected.ravel()), 1e-12))
