"""Compares a model with its captured graphs, which PyTorch runs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest

Check = Callable[..., list[Any]]


@pytest.fixture
def check() -> Check:
    """Return a function that compares a model with its captured graphs, and returns the graphs.

    ``check(model, *inputs, dynamic=None, steps=1, grad=True)`` runs the model twice: unchanged, and
    compiled by a backend that captures each graph and runs the captured graph node by node. It
    compares results, inputs, buffers and gradients; a sum over all result tensors is the loss.
    """
    import torch

    captures: list[Any] = []

    def compare(
        model: Any, *inputs: Any, dynamic: bool | None = None, steps: int = 1, grad: bool = True
    ) -> list[Any]:
        other, others = copy.deepcopy((model, inputs))
        compiled = torch.compile(model, backend=_backend(captures), fullgraph=True, dynamic=dynamic)
        for _ in range(steps):
            torch.manual_seed(1)
            ours = compiled(*inputs)
            torch.manual_seed(1)
            expected = other(*others)
            _compare(ours, expected)
            tensors = [t for t in torch.utils._pytree.tree_leaves(expected) if _has_grad(t)]
            if grad and tensors:
                for result in (ours, expected):
                    leaves = torch.utils._pytree.tree_leaves(result)
                    torch.stack(
                        [t.float().sin().sum() for t in leaves if _has_grad(t)]
                    ).sum().backward()
        _compare(inputs, others)
        _compare(dict(model.named_buffers()), dict(other.named_buffers()))
        gradients = [dict(_gradients(m, i)) for m, i in ((model, inputs), (other, others))]
        _compare(*gradients)
        return captures

    return compare


def _has_grad(value: Any) -> bool:
    return bool(getattr(value, "requires_grad", False))


def _gradients(model: Any, inputs: Sequence[Any]) -> Any:
    for name, parameter in model.named_parameters():
        yield name, parameter.grad
    for i, value in enumerate(inputs):
        yield str(i), value.grad if getattr(value, "is_leaf", False) else None


def _compare(ours: Any, expected: Any) -> None:
    """Compare trees of tensors: structure, dtype, strides, `requires_grad`, and values."""
    import torch

    leaves, structure = torch.utils._pytree.tree_flatten(ours)
    others, other_structure = torch.utils._pytree.tree_flatten(expected)
    assert structure == other_structure
    for one, other in zip(leaves, others, strict=True):
        if not isinstance(other, torch.Tensor):
            assert one == other
            continue
        assert one.requires_grad == other.requires_grad
        torch.testing.assert_close(one.detach(), other.detach(), rtol=1e-6, atol=1e-6)


def _backend(captures: list[Any]) -> Callable[..., Any]:
    """Return a backend that runs captured graphs in PyTorch, and appends them to a list."""
    import torch

    from opwright_torch.capture import capture, size_values

    class Run(torch.fx.Interpreter):
        def run_node(self, n: Any) -> Any:
            result = super().run_node(n)
            if n.op != "call_function" or n.meta["requires_grad"]:
                return result
            return torch.utils._pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, result)

    def backend(module: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        captured = capture(module, example_inputs)
        captures.append(captured)

        def call(*args: Any) -> list[Any]:
            changed = {m.input for m in captured.mutations}
            given = [a.clone() if i in changed else a for i, a in enumerate(args)]
            flat = Run(captured.module).run(*given)
            for mutation in captured.mutations:
                with torch.set_grad_enabled(mutation.requires_grad):
                    args[mutation.input].copy_(flat[mutation.position])
            sizes = size_values(captured.module, args)
            return [output.make(flat, args, sizes) for output in captured.outputs]

        return call

    return backend
