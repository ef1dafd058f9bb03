"""Runs a function of tensors in PyTorch, and as one plan with its gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch._subclasses.functional_tensor import FunctionalTensorMode, dispatch_functionalize
from torch.fx.experimental.proxy_tensor import make_fx

import opwright as ow
from opwright_torch.dtypes import dtype_name
from opwright_torch.translate import Translated, translate

Function = Callable[..., Any]
Tensors = Sequence[torch.Tensor]


class Results(NamedTuple):
    outputs: list[torch.Tensor]
    gradients: list[torch.Tensor]


def as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def translated(function: Function, tensors: Tensors, mode: str = "fake") -> Translated:
    """Translate a function to a program, with gradients for tensors that require them."""

    def flat(*given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return as_tuple(function(*given))

    functional = dispatch_functionalize(flat, FunctionalTensorMode(pre_dispatch=True, export=True))
    traced = make_fx(functional, pre_dispatch=True, tracing_mode=mode)(
        *(t.detach() for t in tensors)
    )
    trained = [i for i, t in enumerate(tensors) if t.requires_grad]
    return translate(traced.graph, traced, sizes_of(traced, tensors), trainable=trained)


def sizes_of(traced: torch.fx.GraphModule, tensors: Tensors) -> dict[Any, int]:
    """Return the symbols of a trace, and their sizes."""
    values = [node.meta["val"] for node in traced.graph.nodes if node.op == "placeholder"]
    return {
        symbol.node.expr: size
        for value, tensor in zip(values, tensors)
        for symbol, size in zip(value.shape, tensor.shape)
        if isinstance(symbol, torch.SymInt)
    }


def weights_of(outputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return weights for outputs, since a plain sum would hide errors in gradients."""
    generator = torch.Generator().manual_seed(5)
    return [torch.rand(o.shape, generator=generator).to(o.dtype) + 0.5 for o in outputs]


def with_plan(found: Translated, tensors: Tensors, truth: Results) -> Results:
    """Return outputs and gradients, computed in one plan."""
    block = found.program.global_block()
    pairs = list(zip(found.inputs, tensors))
    fed = {name: t for name, t in pairs if not t.requires_grad}
    trained = [name for name, t in zip(found.inputs, tensors) if t.requires_grad]
    targets = [(v, o) for v, o in zip(found.outputs, truth.outputs) if o.requires_grad]
    gradients = []
    if trained:
        seeds = weights_of([o for _, o in targets])
        products = []
        for i, ((variable, _), weight) in enumerate(zip(targets, seeds)):
            name = f"weight_{i}"
            block.create_var(name, list(weight.shape), dtype_name(weight.dtype), is_data=True)
            fed[name] = weight
            op = block.append_op("multiply", {"x": variable, "y": name}, {}, {})
            products.append(block.var(op.output("out")[0]))
        gradients = [grad for _, grad in ow.append_backward(products, trained)]
    scope = ow.Scope()
    for name, tensor in pairs:
        if name in trained:
            scope.var(name).borrow(tensor.detach())
    for name, constant in found.constants.items():
        scope.var(name).borrow(constant)
    plan = ow.Network(block).compile(
        list(fed), [*found.outputs, *gradients], scope=scope, fetch_as=torch.Tensor, detach=True
    )
    results = list(plan(*fed.values()))
    return Results(results[: len(found.outputs)], results[len(found.outputs) :])


def with_torch(function: Function, tensors: Tensors) -> Results:
    """Return outputs and gradients, computed by PyTorch."""
    outputs = list(as_tuple(function(*tensors)))
    trained = [t for t in tensors if t.requires_grad]
    targets = [o for o in outputs if o.requires_grad]
    if not trained:
        return Results(outputs, [])
    gradients = torch.autograd.grad(targets, trained, weights_of(targets))
    return Results(outputs, list(gradients))
