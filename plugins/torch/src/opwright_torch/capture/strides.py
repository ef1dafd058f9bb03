"""Rewrites strided reads as reads of flat tensors, because plans choose their own layouts."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import guard_or_false

from opwright_torch.capture.running import CaptureError

aten = torch.ops.aten

READS = {aten.as_strided.default, aten.as_strided_copy.default}
WRITES = {aten.as_strided_scatter.default}


def flatten_memory(node: Node) -> None:
    """Replace the input of a node with stride arguments by a flat tensor of its memory.

    Raises
    ------
    CaptureError
        If no tensor in the graph fills this memory without gaps.
    """
    source: Any = node.args[0]
    start = 3 if node.target in WRITES else 2
    strides, offset = (*node.args, None)[start : start + 2]
    value = source.meta["val"]
    base = _find_base(node, source)
    flat = _flatten(node, base)
    begin = base.meta["val"].storage_offset()
    offset = node.kwargs.get("storage_offset") if offset is None else offset
    offset = value.storage_offset() if offset is None else offset
    node.args = (flat, *node.args[1:start], strides, offset - begin)
    node.kwargs = {}
    if node.target in WRITES:
        places = list(value.shape), list(value.stride()), value.storage_offset() - begin
        with node.graph.inserting_after(node):
            whole = node.graph.call_function(aten.as_strided.default, (node, *places))
        whole.meta.update(node.meta)
        node.replace_all_uses_with(whole, lambda user: user is not whole)
        node.meta["val"] = node.target(flat.meta["val"], _fake(node.args[1]), *node.args[2:])


def _find_base(node: Node, source: Node) -> Node:
    """Return the first node whose tensor fills the memory of `source` without gaps."""
    memory = _memory(source)
    for candidate in node.graph.nodes:
        if candidate is node:
            break
        value = candidate.meta.get("val")
        is_tensor = isinstance(value, torch.Tensor)
        if is_tensor and _memory(candidate) == memory and _order_axes(value) is not None:
            return candidate
    raise CaptureError(
        f"capture: {node.target} must read memory that a tensor fills without gaps, got strides "
        f"{tuple(source.meta['val'].stride())}; call contiguous() before it"
    )


def _flatten(node: Node, base: Node) -> Node:
    """Insert a node that lists the elements of a tensor in memory order."""
    value = base.meta["val"]
    axes = _order_axes(value) or []
    flat = base
    if axes != list(range(value.ndim)):
        flat = _insert(node, aten.permute.default, flat, axes)
    return _insert(node, aten.reshape.default, flat, [-1])


def _order_axes(value: torch.Tensor) -> list[int] | None:
    """Return the axes in descending stride order, or None if the memory has gaps or overlaps."""
    axes = sorted(range(value.ndim), key=lambda axis: -_hint(value.stride(axis)))
    step: Any = 1
    for axis in reversed(axes):
        if guard_or_false(value.shape[axis] == 1):
            continue
        if not guard_or_false(value.stride(axis) == step):
            return None
        step = step * value.shape[axis]
    return axes


def _insert(node: Node, target: Any, source: Node, *args: Any) -> Node:
    with node.graph.inserting_before(node):
        added = node.graph.call_function(target, (source, *args))
    added.meta.update(node.meta)
    added.meta["val"] = target(source.meta["val"], *args)
    added.meta["requires_grad"] = source.meta["requires_grad"]
    return added


def _hint(size: Any) -> int:
    hint = size.node.hint if isinstance(size, torch.SymInt) else size
    return 0 if hint is None else int(hint)


def _fake(value: Any) -> Any:
    return value.meta["val"] if isinstance(value, Node) else value


def _memory(node: Node) -> int:
    return int(node.meta["val"].untyped_storage()._cdata)
