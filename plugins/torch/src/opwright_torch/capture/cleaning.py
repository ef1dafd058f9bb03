"""Removes from a captured graph what computes nothing, and marks where gradients stop."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from opwright_torch.capture.scalars import specialize_floats

aten = torch.ops.aten

_COPIES = {aten.lift_fresh_copy.default, aten.lift_fresh.default, aten.alias.default}


def clean(module: GraphModule) -> None:
    """Clean a captured graph, whose placeholders have a ``meta["requires_grad"]``."""
    specialize_floats(module)
    records = torch.is_grad_enabled()
    for node in list(module.graph.nodes):
        target: Any = node.target
        if target is torch._C._set_grad_enabled:
            records = node.args[0]
            module.graph.erase_node(node)
        elif node.op != "placeholder":
            node.meta["requires_grad"] = records and _takes_gradient(node)
            _shorten(node)
    module.graph.eliminate_dead_code(_has_effect)
    module.recompile()


def _takes_gradient(node: Node) -> bool:
    """Return whether a gradient would flow through a node."""
    if node.target is aten.detach.default:
        return False
    value = node.meta.get("val")
    values = value if isinstance(value, (tuple, list)) else [value]
    return any(
        isinstance(v, torch.Tensor) and (v.is_floating_point() or v.is_complex()) for v in values
    ) and any(source.meta.get("requires_grad") for source in node.all_input_nodes)


def _shorten(node: Node) -> None:
    """Put the argument of an operator that does nothing in the place of its result."""
    source = node.args[0] if node.args else None
    if not isinstance(source, Node):
        return
    stops = source.meta.get("requires_grad") and not node.meta["requires_grad"]
    if node.target in _COPIES or (node.target is aten.detach.default and not stops):
        node.replace_all_uses_with(source)


def _has_effect(node: Node) -> bool:
    return node.op in ("placeholder", "output") or (
        node.target is not aten._assert_tensor_metadata.default
        and node.is_impure(impure_random=False)
    )
