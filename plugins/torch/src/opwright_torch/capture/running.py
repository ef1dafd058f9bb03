"""Runs a Dynamo graph while it is recorded as functional ATen operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from inspect import signature
from typing import Any, Final

import torch
from torch._higher_order_ops.wrap import (
    tag_activation_checkpoint,
    wrap,
    wrap_with_autocast,
    wrap_with_set_grad_enabled,
)
from torch._subclasses.functional_tensor import (
    FunctionalTensor,
    FunctionalTensorMode,
    disable_functional_mode,
)
from torch.amp.autocast_mode import _enter_autocast, _exit_autocast
from torch.fx import Node
from torch.fx.experimental.proxy_tensor import (
    disable_proxy_modes_tracing,
    get_proxy_mode,
    track_tensor_tree,
)
from torch.utils._python_dispatch import TorchDispatchMode

from opwright.errors import OpwrightError
from opwright_torch.capture.straight import straight_through
from opwright_torch.capture.transforms import Region, starts_transform

_AUTOCAST = {
    "cpu": torch._C.DispatchKey.AutocastCPU,
    "cuda": torch._C.DispatchKey.AutocastCUDA,
}


class CaptureError(OpwrightError, RuntimeError):
    """Raised for a graph that cannot be captured, so PyTorch must run it."""


class FunctionalMode(FunctionalTensorMode):
    """Converts in-place operators to functional operators, and autocast to casts.

    PyTorch's functional mode runs before autocast, so its recording would not contain the casts.
    """

    def __init__(self) -> None:
        super().__init__(pre_dispatch=True, export=True)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operator."""
        kwargs = kwargs or {}
        key = _autocast_key(args)
        if key is not None and isinstance(func, torch._ops.OpOverload):
            if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key):
                with self:
                    return func._op_dk(key, *args, **kwargs)
            if func._can_decompose() and _is_cast_inside(func, args, kwargs):
                with self:
                    return func.decompose(*args, **kwargs)
        if func is torch.ops.aten.instance_norm.default and args[3] is not None and args[5]:
            with self:  # its schema does not declare the writes to the running statistics
                return func.decompose(*args, **kwargs)
        if func is torch.ops.aten.dropout.default:
            if not args[2] or args[1] == 0:
                return args[0]  # as in PyTorch; a write to the result changes the input
            # PyTorch forbids writes to the result itself.
            result = super().__torch_dispatch__(func, types, args, kwargs)
            with self:
                return torch.ops.aten.clone.default(result)
        return super().__torch_dispatch__(func, types, args, kwargs)


def _autocast_key(args: Any) -> Any:
    """Return the autocast key for the device of the tensors, or None if autocast is off."""
    for value in torch.utils._pytree.tree_leaves(args):
        if isinstance(value, torch.Tensor):
            key = _AUTOCAST.get(value.device.type)
            on = key is not None and not torch._C._dispatch_tls_is_dispatch_key_excluded(key)
            return key if on and torch.is_autocast_enabled(value.device.type) else None
    return None


def _is_cast_inside(func: Any, args: Any, kwargs: Any) -> bool:
    """Return whether autocast casts tensors inside a composite operator."""
    fakes, named = torch.utils._pytree.tree_map_only(FunctionalTensor, _unwrapped, (args, kwargs))
    with disable_proxy_modes_tracing(), _Casts() as casts:
        func(*fakes, **named)
    return bool(casts.count)


class _Casts(TorchDispatchMode):
    count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        self.count += func is torch.ops.aten._to_copy.default
        return func(*args, **(kwargs or {}))


def _unwrapped(value: Any) -> Any:
    torch._sync(value)
    return torch._from_functional_tensor(value.elem)


def functional_mode() -> Callable[[], AbstractContextManager[Any]]:
    """Return a function that creates a context in which in-place operators become functional."""
    mode = FunctionalMode()

    @contextmanager
    def enter() -> Iterator[Any]:
        keys = torch._C.DispatchKeySet(torch._C.DispatchKey.Functionalize)
        with torch._C._ExcludeDispatchKeyGuard(keys), mode:
            yield mode

    return enter


class FunctionalRun(torch.fx.Interpreter):
    """Runs the nodes and keeps all values in ``env``."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module, garbage_collect_values=False)
        self._autocasts: list[Any] = []

    def run(self, *args: Any) -> Any:
        """Run the graph; autocast is restored afterwards, even on failure."""
        try:
            return super().run(*args)
        finally:
            while self._autocasts:
                self._exit_autocast()

    def run_node(self, n: Node) -> Any:
        """Run a node."""
        if n in self.env:
            return self.env[n]
        if starts_transform(n):
            self._run_transform(Region(n))
            return None
        if n.op == "call_function" and n.target is torch._C._set_grad_enabled:
            # After its base is modified, a view is recomputed at its next use. Recompute all views
            # before the mode changes.
            for value in self.env.values():
                if isinstance(value, FunctionalTensor):
                    torch._sync(value)
        if not torch.is_grad_enabled() and _records(n):
            return self._run_straight(n)
        self._check_gradients(n)
        return super().run_node(n)

    def _check_gradients(self, n: Node) -> None:
        """Raise CaptureError for a write, unseen by autograd, to a tensor that requires gradients.

        Such a node writes to a detached alias, and the functional graph would lose the gradient.
        """
        if n.target in _RENORMALIZED and _reads_max_norm(n):
            raise CaptureError(f"capture: {n} writes an embedding table because max_norm is set")
        changed = n.args[0] if n.args else None
        if not isinstance(changed, Node) or not _is_in_place(n) or _records(n):
            return
        memory = _memory(changed)
        for other in self.env:
            value = other.meta.get("example_value")
            if getattr(value, "requires_grad", False) and _memory(other) == memory:
                raise CaptureError(
                    f"capture: {n} modifies {other} through a detached alias, but {other} requires "
                    "gradients"
                )

    def _run_straight(self, n: Node) -> Any:
        """Run a node under ``no_grad`` on a tensor whose gradients must still flow.

        PyTorch's recorder works at a lower level, where the tensors before and after the
        modification are different objects.
        """
        changed = self.env[n.args[0]]
        before = _unwrapped(changed)
        result = super().run_node(n)
        after = _unwrapped(changed)
        if after is before:
            return result
        if n.args[0].meta["example_value"]._base is not None:
            raise CaptureError(
                f"capture: {n} modifies a view of a tensor that requires gradients under no_grad"
            )
        value, source = map(FunctionalTensor.to_functional, (after, before))
        torch._C._set_grad_enabled(True)
        changed.copy_(straight_through(value, source))
        torch._C._set_grad_enabled(False)
        return result

    def _run_transform(self, region: Region) -> None:
        values = [self.env[node] for node in region.inputs]
        fakes = torch.utils._pytree.tree_map_only(FunctionalTensor, _unwrapped, values)
        traced = region.trace(self.module, fakes)
        self.env.update(dict.fromkeys(region.nodes))
        self.env.update(zip(region.outputs, torch.fx.Interpreter(traced).run(*values)))

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function; subgraphs that an operator calls are inlined."""
        if target in _INLINED:
            return _INLINED[target](*args)
        if isinstance(target, torch._ops.HigherOrderOperator):
            return _record(target, args, kwargs)
        if target is _enter_autocast:
            # A torch function mode would record the call instead of running it.
            with torch._C.DisableTorchFunction():
                self._autocasts.append(_enter_autocast(*args))
            return None
        if target is _exit_autocast:
            return self._exit_autocast()
        return super().call_function(target, args, kwargs)

    def _exit_autocast(self) -> None:
        with torch._C.DisableTorchFunction():
            _exit_autocast(self._autocasts.pop())


def _is_in_place(node: Node) -> bool:
    """Return whether a node modifies its first argument, according to its schema or its name."""
    target: Any = node.target
    if isinstance(target, torch._ops.OpOverload):
        first = target._schema.arguments[0].alias_info if target._schema.arguments else None
        return first is not None and first.is_write
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    is_operator = getattr(target, "__module__", "") == "_operator"
    return (name.endswith("_") and not name.endswith("__") and name not in _FORMS) or (
        is_operator and name in ("setitem", *_IN_PLACE)
    )


_IN_PLACE: Final = ("iadd", "isub", "imul", "itruediv", "ifloordiv", "ipow", "iand", "ior", "ixor")
_FORMS: Final = ("detach_", "requires_grad_", "squeeze_", "t_", "transpose_", "unsqueeze_")
"""In-place operators that do not change elements."""

_RENORMALIZED: Final = (torch.nn.functional.embedding, torch.nn.functional.embedding_bag)


def _reads_max_norm(node: Node) -> bool:
    target: Any = node.target
    bound = signature(target).bind(*node.args, **node.kwargs).arguments
    weight = bound["weight"].meta.get("example_value")
    return bound.get("max_norm") is not None and bool(getattr(weight, "requires_grad", False))


def _memory(node: Node) -> int | None:
    value = node.meta.get("example_value")
    is_tensor = isinstance(value, torch.Tensor)
    return int(value.untyped_storage()._cdata) if is_tensor else None


def _records(node: Node) -> bool:
    """Return whether the first argument of a node requires gradients."""
    source = node.args[0] if node.args else None
    return isinstance(source, Node) and bool(
        getattr(source.meta.get("example_value"), "requires_grad", False)
    )


def _record(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Record a call as one node; PyTorch runs its subgraphs and differentiates it.

    This applies to control flow, ``autograd.Function`` and attention with a score function.
    """
    tree = torch.utils._pytree
    fakes, named = tree.tree_map_only(FunctionalTensor, _unwrapped, (args, kwargs))
    tracer = get_proxy_mode().tracer
    for value in tree.tree_leaves((args, kwargs)):
        if isinstance(value, torch.nn.Module):
            tracer.root.register_module(f"graph_{len(tracer.root._modules)}", value)
    proxies, named_proxies = tree.tree_map(tracer.unwrap_proxy, (fakes, named))
    with torch._C.DisableTorchFunction(), disable_functional_mode(), disable_proxy_modes_tracing():
        result = target(*fakes, **named)
    proxy = tracer.create_proxy("call_function", target, proxies, named_proxies)
    track_tensor_tree(result, proxy, constant=None, tracer=tracer)
    return tree.tree_map_only(torch.Tensor, FunctionalTensor.to_functional, result)


def _inline(graph: torch.fx.GraphModule, *values: Any) -> Any:
    return FunctionalRun(graph).run(*values)


def _inline_switched(enabled: bool, graph: torch.fx.GraphModule, *values: Any) -> Any:
    before = torch.is_grad_enabled()
    torch._C._set_grad_enabled(enabled)  # recorded as a node of the graph
    result = _inline(graph, *values)
    torch._C._set_grad_enabled(before)
    return result


def _inline_cast(
    device: str, dtype: Any, enabled: bool, cache: Any, graph: torch.fx.GraphModule, *values: Any
) -> Any:
    with torch.autocast(device, dtype, enabled=enabled, cache_enabled=cache):
        return _inline(graph, *values)


_INLINED: Final[dict[Any, Callable[..., Any]]] = {
    tag_activation_checkpoint: _inline,
    wrap: _inline,
    wrap_with_set_grad_enabled: _inline_switched,
    wrap_with_autocast: _inline_cast,
}
"""Operators that only call a subgraph; `torch.export` emits some for ``no_grad`` and autocast."""
