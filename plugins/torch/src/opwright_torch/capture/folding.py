"""Folds constants such as positions, masks, and constants modified in place."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.fx import GraphModule, Node

aten = torch.ops.aten

MAX_BYTES: Final = 16 << 20
"""Maximum size of a folded constant in bytes; the plan computes larger constants."""

_READ_SHAPES: Final = {
    *(aten.zeros_like, aten.ones_like, aten.full_like, aten.fill),
    *(aten.new_zeros, aten.new_ones, aten.new_full),
}
"""Operators that read only the shape, dtype and device of their first argument."""

_WITHOUT_VALUE: Final = {aten.empty, aten.empty_strided, aten.empty_like, aten.new_empty}


def fold(module: GraphModule) -> None:
    """Replace operators on constants by constants if a remaining operator uses the result."""
    values: dict[Node, Any] = {}
    for node in module.graph.nodes:
        if node.op == "get_attr":
            values[node] = getattr(module, node.target)
        elif node.op == "call_function" and _is_constant(node, values):
            values[node] = _compute(node, values)
    left: set[Node] = set()
    for node in [node for node in reversed(values) if node.op == "call_function"]:
        users = [user for user in node.users if user not in values or user in left]
        if users and _is_worth_storing(node):
            _store(module, node, values[node], users)
        elif users:
            left.add(node)


def _is_constant(node: Node, values: dict[Node, Any]) -> bool:
    """Return whether the inputs of a node are constants and its result can be stored."""
    target: Any = node.target
    value = node.meta.get("val")
    return (
        isinstance(target, torch._ops.OpOverload)
        and isinstance(value, torch.Tensor)
        and value.device.type == "cpu"
        and value.layout is torch.strided
        and all(isinstance(size, int) for size in (*value.shape, *value.stride()))
        and value.numel() * value.element_size() <= MAX_BYTES
        and torch.Tag.nondeterministic_seeded not in target.tags
        and target.overloadpacket not in _WITHOUT_VALUE
        and all(source in values for source in _sources(node))
    )


def _sources(node: Node) -> list[Node]:
    """Return the inputs from which a node reads elements, not only the shape, dtype and device."""
    is_read = getattr(node.target, "overloadpacket", None) not in _READ_SHAPES
    return [source for source in node.all_input_nodes if is_read or source is not node.args[0]]


def _compute(node: Node, values: dict[Node, Any]) -> Any:
    shape, stride = node.meta["val"].shape, node.meta["val"].stride()

    def read(source: Node) -> Any:
        if source in values:
            return values[source]
        return torch.empty_strided(shape, stride, dtype=source.meta["val"].dtype)

    target: Any = node.target
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), read)
    with torch.inference_mode(False), torch.no_grad(), torch.autocast("cpu", enabled=False):
        return target(*args, **kwargs)


def _is_worth_storing(node: Node) -> bool:
    """Return whether storing the value is better than computing it in the plan."""
    return node.target is not aten.expand.default and bool(_sources(node))


def _store(module: GraphModule, node: Node, value: Any, users: list[Node]) -> None:
    name = f"_folded_{node.name}"
    module.register_buffer(name, value, persistent=False)
    with module.graph.inserting_before(node):
        constant = module.graph.get_attr(name)
    constant.meta.update(node.meta)
    for user in users:
        user.replace_input_with(node, constant)
