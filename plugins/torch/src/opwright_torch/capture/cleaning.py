"""Removes no-ops from a captured graph, and marks where gradients stop."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import guard_or_false, sym_eq

from opwright_torch.capture import strides
from opwright_torch.capture.folding import fold
from opwright_torch.capture.scalars import specialize_floats

aten = torch.ops.aten

_NOTHING = {
    *(aten.lift_fresh_copy.default, aten.lift_fresh.default),
    *(aten.alias.default, aten.detach.default),
}

_SAME_IF_SHAPED = {
    *(aten.slice.Tensor, aten.reshape.default, aten.expand.default),
}
"""Operators that are no-ops if the result has the shape of the argument."""

_RESHAPES = {aten.view.default, aten._unsafe_view.default}
"""Operators that require certain strides of their argument; reshape replaces them."""


def clean(module: GraphModule) -> None:
    """Clean a captured graph whose placeholders have a ``meta["requires_grad"]``."""
    specialize_floats(module)
    records = torch.is_grad_enabled()
    for node in list(module.graph.nodes):
        target: Any = node.target
        if target is torch._C._set_grad_enabled:
            records = node.args[0]
            module.graph.erase_node(node)
        elif node.op == "output":
            node.meta["requires_grad"] = records
        elif node.op != "placeholder":
            node.meta["requires_grad"] = records and _takes_gradient(node)
            if target in strides.READS | strides.WRITES:
                strides.flatten_memory(node)
            else:
                _shorten(node)
    fold(module)
    _own_results(module)
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
    """Replace the result of a no-op by its argument."""
    if node.target in _RESHAPES:
        node.target = aten.reshape.default
    target: Any = node.target
    if target is aten.copy.default:
        source = _copied(node)
    elif (
        target in _NOTHING
        or (target in _SAME_IF_SHAPED and _is_shaped_alike(node))
        or (target is aten.clone.default and node.args[0].target is aten.dropout.default)
    ):
        source = node.args[0]
    else:
        return
    if source.meta["requires_grad"] and not node.meta["requires_grad"]:
        node.target, node.args, node.kwargs = aten.detach.default, (source,), {}
    elif source is not node:
        node.replace_all_uses_with(source)


def _is_shaped_alike(node: Node) -> bool:
    return bool(guard_or_false(sym_eq(node.args[0].meta["val"].shape, node.meta["val"].shape)))


def _copied(node: Node) -> Node:
    """Return the source of a copy node, cast and expanded to the dtype and shape of the target."""
    source, expected = node.args[1], node.meta["val"]
    if source.meta["val"].dtype != expected.dtype:
        source = _append(node, aten._to_copy.default, source, dtype=expected.dtype)
    if guard_or_false(sym_eq(source.meta["val"].shape, expected.shape)):
        return source
    if all(isinstance(size, int) for size in expected.shape):
        return _append(node, aten.expand.default, source, list(expected.shape))
    return node


def _append(node: Node, target: Any, source: Node, *args: Any, **kwargs: Any) -> Node:
    """Insert a node before another node, and set its `requires_grad`."""
    with node.graph.inserting_before(node):
        added = node.graph.call_function(target, (source, *args), kwargs)
    added.meta.update(node.meta)
    added.meta["val"] = target(source.meta["val"], *args, **kwargs)
    added.meta["requires_grad"] = node.meta["requires_grad"] and source.meta["requires_grad"]
    return added


def _own_results(module: GraphModule) -> None:
    """Copy results that are inputs or constants, since callers may modify them."""
    (output,) = (node for node in module.graph.nodes if node.op == "output")
    flat = [
        _append(output, aten.clone.default, node) if node.op != "call_function" else node
        for node in output.args[0]
    ]
    output.args = (flat,)


def _has_effect(node: Node) -> bool:
    return node.op in ("placeholder", "output") or (
        node.target is not aten._assert_tensor_metadata.default
        and node.is_impure(impure_random=False)
    )
