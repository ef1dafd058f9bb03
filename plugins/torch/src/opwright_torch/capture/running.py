"""Runs a graph of Dynamo so that what it does is recorded as functional ATen operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch._higher_order_ops.wrap import tag_activation_checkpoint, wrap
from torch._subclasses.functional_tensor import FunctionalTensor, FunctionalTensorMode
from torch.fx import Node

_INLINED = {tag_activation_checkpoint, wrap}
"""Operators that call a graph, whose first argument it is. What is saved for the backward is
decided by the consumer, so that checkpointing needs nothing."""


def functional_mode() -> Callable[[], AbstractContextManager[Any]]:
    """Return what enters the mode in which in-place operators become functional ones."""
    mode = FunctionalTensorMode(pre_dispatch=True, export=True)

    @contextmanager
    def enter() -> Iterator[Any]:
        keys = torch._C.DispatchKeySet(torch._C.DispatchKey.Functionalize)
        with torch._C._ExcludeDispatchKeyGuard(keys), mode:
            yield mode

    return enter


class FunctionalRun(torch.fx.Interpreter):  # type: ignore[misc]  # mypy sees no PyTorch
    """Runs the nodes, values of all of which stay in ``env``."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module, garbage_collect_values=False)

    def run_node(self, n: Node) -> Any:
        """Run a node."""
        if n.op == "call_function" and n.target is torch._C._set_grad_enabled:
            # A view whose base was changed is recomputed at its next use: here, so that it is
            # on this side of the switch.
            for value in self.env.values():
                if isinstance(value, FunctionalTensor):
                    torch._sync(value)
        return super().run_node(n)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function; graphs that an operator calls are run in place."""
        if target in _INLINED:
            return FunctionalRun(args[0]).run(*args[1:])
        return super().call_function(target, args, kwargs)
