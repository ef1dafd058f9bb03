"""Optimizers that update table rows by a step of a ``torch.optim`` class with a sparse gradient."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from torch_operators.convert import Function, require
from torch_operators.optimizers import correct, take_step

Tensor = torch.Tensor


def _sparse_gradient(
    param: Tensor, rows: Sequence[Tensor], values: Sequence[Tensor], padding: Sequence[int]
) -> Tensor:
    """Return the gradient of lookups, as ``torch.nn.Embedding(sparse=True)`` returns it."""
    size = param.shape[1]
    kept_rows, kept_values = [], []
    for i, (index, slices) in enumerate(zip(rows, values, strict=True)):
        flat, lines = index.reshape(-1).long(), slices.reshape(index.numel(), size)
        kept = flat != (padding[i] if padding else -1)
        kept_rows.append(flat[kept])
        kept_values.append(lines[kept])
    index, lines = torch.cat(kept_rows)[None], torch.cat(kept_values)
    return torch.sparse_coo_tensor(index, lines, param.shape)


def _step(
    optimizer: type[Any], param: Tensor, grad: Tensor, state: dict[str, Any], **options: Any
) -> tuple[Tensor, dict[str, Any]]:
    moved = torch.nn.Parameter(param.detach().clone())
    moved.grad = grad
    stepper = optimizer([moved], **options)
    stepper.state[moved] = {
        key: value.clone() if isinstance(value, Tensor) else value for key, value in state.items()
    }
    stepper.step()
    return moved.detach(), stepper.state[moved]


def _sgd(
    param: Tensor,
    rows: list[Tensor],
    values: list[Tensor],
    learning_rate: Tensor,
    padding_indices: Sequence[int],
) -> Tensor:
    grad = _sparse_gradient(param, rows, values, padding_indices)
    return _step(torch.optim.SGD, param, grad, {}, lr=float(learning_rate))[0]


def _momentum(
    param: Tensor,
    rows: list[Tensor],
    values: list[Tensor],
    learning_rate: Tensor,
    velocity: Tensor,
    mu: float,
    nesterov: bool,
    padding_indices: Sequence[int],
) -> Any:
    """Pass only the looked-up rows to SGD, since momentum would update every row."""
    require(mu > 0.0, "PyTorch keeps no velocity without momentum")
    grad = _sparse_gradient(param, rows, values, padding_indices).coalesce()
    (named,) = grad.indices()
    state = {"momentum_buffer": velocity[named]}
    options = {"lr": float(learning_rate), "momentum": mu, "nesterov": nesterov}
    moved, after = take_step(torch.optim.SGD, param[named], grad.values(), state, **options)
    velocity_after = velocity.index_copy(0, named, after["momentum_buffer"])
    return param.index_copy(0, named, moved), velocity_after


def _adagrad(
    param: Tensor,
    rows: list[Tensor],
    values: list[Tensor],
    learning_rate: Tensor,
    squares: Tensor,
    epsilon: float,
    padding_indices: Sequence[int],
) -> Any:
    grad = _sparse_gradient(param, rows, values, padding_indices)
    state = {"step": torch.tensor(0.0), "sum": squares}
    options = {"lr": float(learning_rate), "eps": epsilon, "foreach": False}
    out, after = _step(torch.optim.Adagrad, param, grad, state, **options)
    return out, after["sum"]


def _adam(
    param: Tensor,
    rows: list[Tensor],
    values: list[Tensor],
    learning_rate: Tensor,
    moment1: Tensor,
    moment2: Tensor,
    beta1_power: Tensor,
    beta2_power: Tensor,
    beta1: float,
    beta2: float,
    epsilon: float,
    padding_indices: Sequence[int],
) -> Any:
    require(epsilon > 0.0, "SparseAdam needs an epsilon above 0")
    grad = _sparse_gradient(param, rows, values, padding_indices)
    state = {"step": 0, "exp_avg": moment1, "exp_avg_sq": moment2}
    factor = math.sqrt(correct(beta2_power, beta2)) / correct(beta1_power, beta1)
    options = {
        "lr": float(learning_rate) * factor,
        "betas": (beta1, beta2),
        "eps": epsilon * math.sqrt(1 - float(beta2_power)),  # added to a root without correction
    }
    out, after = _step(torch.optim.SparseAdam, param, grad, state, **options)
    return out, after["exp_avg"], after["exp_avg_sq"], beta1_power * beta1, beta2_power * beta2


OPERATORS: dict[str, Function] = {
    "sparse_sgd": _sgd,
    "sparse_momentum": _momentum,
    "sparse_adagrad": _adagrad,
    "sparse_adam": _adam,
}
