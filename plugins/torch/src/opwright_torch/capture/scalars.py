"""Replaces floats that Dynamo feeds as tensors with ``dynamic=True``."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node


def specialize_floats(module: GraphModule) -> None:
    """Remove nodes whose value is a SymFloat.

    If an operator accepts a tensor, its argument becomes the fed 0-d float64 tensor. Otherwise, as
    for the epsilon of a normalization, the number becomes a constant, and PyTorch recompiles when
    it changes.
    """
    for node in list(module.graph.nodes):
        if not isinstance(node.meta.get("val"), torch.SymFloat):
            continue
        for user in list(node.users):
            if node.target is torch.ops.aten.item.default and _takes_tensor(user, node):
                user.replace_input_with(node, node.args[0])
            elif not isinstance(user.meta.get("val"), torch.SymFloat):
                _write(user, node, float(node.meta["val"]))


def _takes_tensor(user: Node, number: Node) -> bool:
    """Return whether the first argument is a float tensor and the number can be a tensor."""
    target: Any = user.target
    if not isinstance(target, torch._ops.OpOverload) or user.args[0] is number:
        return False
    first = getattr(user.args[0], "meta", {}).get("val")
    places = [i for i, value in enumerate(user.args) if value is number]
    types = {str(target._schema.arguments[i].type) for i in places}
    return (
        types == {"Tensor"}
        and number not in user.kwargs.values()
        and isinstance(first, torch.Tensor)
        and first.is_floating_point()
    )


def _write(user: Node, number: Node, value: float) -> None:
    def replaced(argument: Any) -> Any:
        return value if argument is number else argument

    user.args = torch.fx.map_arg(user.args, replaced)
    user.kwargs = torch.fx.map_arg(user.kwargs, replaced)
