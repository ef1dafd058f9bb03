"""Traces ``torch.vmap``, ``torch.func.grad`` and other transforms to plain operators.

Dynamo records a transform as a start node, the transformed operators, and an end node. A transform
takes effect below the level at which composite operators are captured, so each region is traced
separately, and the traced operators replace the region.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.functional_tensor import (
    FunctionalTensorMode,
    disable_functional_mode,
    dispatch_functionalize,
)
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing, make_fx


def starts_transform(node: Node) -> bool:
    """Return whether a transform starts at a node of a Dynamo graph."""
    return node.op == "call_function" and _name(node).endswith("_increment_nesting")


class Region:
    """The nodes from the start of a transform to its end."""

    def __init__(self, start: Node) -> None:
        self.nodes: list[Node] = []
        depth, node = 0, start
        while depth or not self.nodes:
            self.nodes.append(node)
            depth += _name(node).endswith("_increment_nesting")
            depth -= _name(node).endswith("_decrement_nesting")
            node = node.next
        inside = set(self.nodes)
        used = dict.fromkeys(source for node in self.nodes for source in node.all_input_nodes)
        self.inputs = [node for node in used if node not in inside]
        self.outputs = [node for node in self.nodes if not inside.issuperset(node.users)]

    def trace(self, module: GraphModule, values: list[Any]) -> GraphModule:
        """Trace the operators of the region for FakeTensors and SymInts."""

        def run(*arguments: Any) -> list[Any]:
            running = torch.fx.Interpreter(module, garbage_collect_values=False)
            running.env.update(zip(self.inputs, arguments))
            depth = torch._C._functorch.get_dynamic_layer_stack_depth()
            try:
                for node in self.nodes:
                    running.env[node] = running.run_node(node)
            finally:
                torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)
            return [running.env[node] for node in self.outputs]

        with (
            torch._C.DisableTorchFunction(),
            disable_functional_mode(),
            disable_proxy_modes_tracing(),
        ):
            return make_fx(dispatch_functionalize(run, FunctionalTensorMode()))(*values)


def _name(node: Node) -> str:
    return str(getattr(node.target, "__name__", ""))
