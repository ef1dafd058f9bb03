"""Captures recurrent layers by shape only, so sequences can have any length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any, Final

import torch

_LOCK: Final = RLock()  # decompositions are global to the process
_KEYS: Final = (torch._C.DispatchKey.CompositeImplicitAutograd, torch._C.DispatchKey.Autograd)


def _lstm(
    x: torch.Tensor, hx: Sequence[torch.Tensor], *arguments: Any
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return _outputs(x, hx[0], arguments), torch.empty_like(hx[0]), torch.empty_like(hx[1])


def _rnn(x: torch.Tensor, hx: torch.Tensor, *arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return _outputs(x, hx, arguments), torch.empty_like(hx)


def _outputs(x: torch.Tensor, state: torch.Tensor, arguments: Sequence[Any]) -> torch.Tensor:
    n_directions = 2 if arguments[5] else 1  # params, has_biases, num_layers, dropout, train, ...
    return x.new_empty([*x.shape[:-1], state.shape[-1] * n_directions])


_SHAPES: Final[dict[Any, Any]] = {
    torch.ops.aten.lstm.input: _lstm,
    torch.ops.aten.gru.input: _rnn,
    torch.ops.aten.rnn_tanh.input: _rnn,
    torch.ops.aten.rnn_relu.input: _rnn,
}


@contextmanager
def open_lengths() -> Iterator[None]:
    """Replace PyTorch's decompositions, which unroll recurrent layers step by step."""
    with _LOCK:
        held = {operator: dict(operator.py_kernels) for operator in _SHAPES}
        try:
            for operator, shapes in _SHAPES.items():
                operator.py_kernels.update(dict.fromkeys(_KEYS, shapes))
                operator._dispatch_cache.clear()
            yield
        finally:
            for operator, kernels in held.items():
                operator.py_kernels.clear()
                operator.py_kernels.update(kernels)
                operator._dispatch_cache.clear()
