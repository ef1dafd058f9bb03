"""Classifies the inputs of a Dynamo graph: parameters, buffers, data, sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch.fx import GraphModule


def is_kept(tensor: Any) -> bool:
    """Return whether an input is a parameter or buffer of the module.

    Dynamo marks buffers of a module, and tensors passed to ``torch._dynamo.mark_static_address``,
    as having a static address. Other inputs are fed.
    """
    return isinstance(tensor, torch.nn.Parameter) or (
        isinstance(tensor, torch.Tensor) and hasattr(tensor, "_dynamo_static_input_type")
    )


def size_values(module: GraphModule, inputs: Sequence[Any]) -> dict[sympy.Symbol, int]:
    """Return the value of each symbol in the sizes of a captured module.

    Parameters
    ----------
    module : GraphModule
        The captured module.
    inputs : sequence
        Tensors and numbers for its placeholders, in order.
    """
    values: dict[sympy.Symbol, int] = {}
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    for node, given in zip(placeholders, inputs, strict=True):
        expected = node.meta["val"]
        if isinstance(expected, torch.SymInt):
            _bind(values, expected, int(given))
        elif isinstance(expected, torch.Tensor):
            sizes = (*expected.shape, *expected.stride(), expected.storage_offset())
            known = (*given.shape, *given.stride(), given.storage_offset())
            for size, value in zip(sizes, known, strict=True):
                _bind(values, size, value)
    return values


def _bind(values: dict[sympy.Symbol, int], size: Any, value: int) -> None:
    if isinstance(size, torch.SymInt) and isinstance(size.node.expr, sympy.Symbol):
        values[size.node.expr] = value
