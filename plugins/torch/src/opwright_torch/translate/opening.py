"""Decomposes PyTorch's composite operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensorMode, dispatch_functionalize
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_unflatten


class Opened(NamedTuple):
    """The operators of a composite node; `module` has a placeholder for each of `inputs`."""

    module: GraphModule
    inputs: list[Node]


def open_composite(node: Node) -> Opened | None:
    """Return the decomposition of an ATen node, or None if it is a primitive operator."""
    target: Any = node.target
    if not torch._C._dispatch_has_kernel_for_dispatch_key(
        target.name(), "CompositeImplicitAutograd"
    ):
        return None
    leaves, spec = tree_flatten((node.args, node.kwargs))
    given = [leaf.meta["val"] if isinstance(leaf, Node) else leaf for leaf in leaves]
    places = [i for i, v in enumerate(given) if isinstance(v, (torch.Tensor, torch.SymInt))]
    fakes = [given[i] for i in places]

    def call(*varying: Any) -> Any:
        values = list(given)
        for i, value in zip(places, varying):
            values[i] = value
        args, kwargs = tree_unflatten(values, spec)
        return target(*args, **kwargs)

    return Opened(_traced(call, fakes), [leaves[i] for i in places])


def _traced(call: Callable[..., Any], fakes: list[Any]) -> GraphModule:
    tensors = [value for value in fakes if isinstance(value, torch.Tensor)]
    mode = tensors[0].fake_mode if tensors else FakeTensorMode()
    functional = dispatch_functionalize(call, FunctionalTensorMode(pre_dispatch=True))
    with mode:
        return make_fx(functional, pre_dispatch=True)(*fakes)
