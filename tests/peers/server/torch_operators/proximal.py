"""Optimizers that PyTorch lacks, composed of PyTorch optimizers and soft thresholding."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from torch_operators.convert import Function, require
from torch_operators.optimizers import OPERATORS as KNOWN
from torch_operators.optimizers import take_step

Tensor = torch.Tensor


def _shrink(moved: Tensor, bound: Tensor | float, l2: Tensor | float) -> Tensor:
    """Return argmin over w of (w - moved)**2 / 2 + bound * |w| + l2 * w**2 / 2."""
    bounds = torch.as_tensor(bound, dtype=moved.dtype).expand_as(moved)
    is_positive = bounds > 0
    unit = torch.where(is_positive, bounds, 1.0)
    shrunk = F.softshrink(moved / unit, 1.0) * unit
    return torch.where(is_positive, shrunk, moved) / (1 + l2)


def _proximal_gd(
    param: Tensor, grad: Tensor, learning_rate: Tensor, l1: float, l2: float
) -> Tensor:
    rate = float(learning_rate)
    require(rate >= 0, "rates below 0")
    moved, _ = take_step(torch.optim.SGD, param, grad, {}, lr=rate)
    return _shrink(moved, rate * l1, rate * l2)


def _proximal_adagrad(
    param: Tensor,
    grad: Tensor,
    learning_rate: Tensor,
    squares: Tensor,
    l1: float,
    l2: float,
    epsilon: float,
) -> Any:
    require(float(learning_rate) >= 0, "rates below 0")
    moved, after = KNOWN["adagrad"](param, grad, learning_rate, squares, epsilon)
    rates = float(learning_rate) / (after.sqrt() + epsilon)
    return _shrink(moved, rates * l1, rates * l2), after


def _ftrl(
    param: Tensor,
    grad: Tensor,
    learning_rate: Tensor,
    squares: Tensor,
    linear: Tensor,
    l1: float,
    l2: float,
) -> Any:
    rate, squares_out = float(learning_rate), torch.addcmul(squares, grad, grad)
    strength = squares_out.sqrt() / rate
    linear_out = linear + grad - (strength - squares.sqrt() / rate) * param
    # The leader is argmin over w of linear * w + l1 * |w| + (strength / 2 + l2) * w**2.
    leader = -_shrink(linear_out, l1, 0.0) / (strength + 2 * l2)
    return torch.where(linear_out.abs() <= l1, 0.0, leader), squares_out, linear_out


def _lion(
    param: Tensor,
    grad: Tensor,
    learning_rate: Tensor,
    moment: Tensor,
    beta1: float,
    beta2: float,
    weight_decay: float,
) -> Any:
    direction = torch.sign(torch.lerp(grad, moment, beta1)) + weight_decay * param
    return param - float(learning_rate) * direction, torch.lerp(grad, moment, beta2)


def _lamb(
    param: Tensor,
    grad: Tensor,
    learning_rate: Tensor,
    weight_decay: float,
    **state: Any,
) -> Any:
    # The direction of Adam is the negative of its step from 0 with learning rate 1.
    one, zero = torch.ones_like(learning_rate), torch.zeros_like(param)
    moved, *moments = KNOWN["adam"](zero, grad, one, **state)
    direction = weight_decay * param - moved
    sizes = [torch.linalg.vector_norm(each) for each in (param, direction)]
    trust = sizes[0] / sizes[1] if sizes[0] != 0 and sizes[1] != 0 else 1.0
    return param - float(learning_rate) * trust * direction, *moments


OPERATORS: dict[str, Function] = {
    "proximal_gd": _proximal_gd,
    "proximal_adagrad": _proximal_adagrad,
    "ftrl": _ftrl,
    "lion": _lion,
    "lamb": _lamb,
}
