"""Element-wise operators."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from torch_operators.convert import Function, require

Tensor = torch.Tensor


def _scale(x: Tensor, scale: float, bias: float) -> Tensor:
    return x * scale + bias


def _clip(x: Tensor, min: float, max: float) -> Tensor:
    if x.is_floating_point():
        return torch.clamp(x, min, max)
    info = torch.iinfo(x.dtype)
    require(x.dtype in {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}, "dtype")
    require(info.min <= min <= info.max or min == -math.inf, "bounds outside of the dtype")
    require(info.min <= max <= info.max or max == math.inf, "bounds outside of the dtype")
    low = info.min if min == -math.inf else math.ceil(min)
    high = info.max if max == math.inf else math.floor(max)
    return torch.clamp(x, low, high)


def _pow_scalar(x: Tensor, exponent: float) -> Tensor:
    is_whole = not x.is_floating_point() and exponent >= 0 and exponent == int(exponent)
    return torch.pow(x, int(exponent) if is_whole else exponent)


def _power(x: Tensor, y: Tensor) -> Tensor:
    require(x.is_floating_point(), "NumPy refuses or wraps powers of integers differently")
    return torch.pow(x, y)


def _floor_divide(x: Tensor, y: Tensor) -> Tensor:
    require(x.is_floating_point() or bool((y != 0).all()), "PyTorch divides no integer by zero")
    return torch.floor_divide(x, y)


def _mod(x: Tensor, y: Tensor) -> Tensor:
    require(x.is_floating_point() or bool((y != 0).all()), "PyTorch divides no integer by zero")
    return torch.remainder(x, y)


def _prelu(x: Tensor, weight: Tensor) -> Tensor:
    return torch.where(x > 0, x, weight * x)


def _nan_to_num(x: Tensor, nan: float, posinf: float, neginf: float) -> Tensor:
    return torch.nan_to_num(x, nan, posinf, neginf)


def _thresholded_relu(x: Tensor, alpha: float) -> Tensor:
    return F.threshold(x, alpha, 0.0)


def _soft_relu(x: Tensor, threshold: float) -> Tensor:
    return torch.log1p(torch.exp(torch.clamp(x, -threshold, threshold)))


def _logical(function: Function) -> Function:
    return lambda x, y: function(x != 0, y != 0)


UNARY: dict[str, Function] = {
    "abs": lambda x: torch.abs(x),
    "negative": lambda x: -x,
    "sign": lambda x: torch.where(x != x, x, torch.sign(x)),
    "exp": lambda x: torch.exp(x),
    "expm1": lambda x: torch.expm1(x),
    "log": lambda x: torch.log(x),
    "log1p": lambda x: torch.log1p(x),
    "log2": lambda x: torch.log2(x),
    "sqrt": lambda x: torch.sqrt(x),
    "rsqrt": lambda x: torch.rsqrt(x),
    "square": lambda x: torch.square(x),
    "reciprocal": lambda x: torch.reciprocal(x),
    "sin": lambda x: torch.sin(x),
    "cos": lambda x: torch.cos(x),
    "tan": lambda x: torch.tan(x),
    "asin": lambda x: torch.asin(x),
    "acos": lambda x: torch.acos(x),
    "atan": lambda x: torch.atan(x),
    "sinh": lambda x: torch.sinh(x),
    "cosh": lambda x: torch.cosh(x),
    "tanh": lambda x: torch.tanh(x),
    "erf": lambda x: torch.erf(x),
    "ceil": lambda x: torch.ceil(x),
    "floor": lambda x: torch.floor(x),
    "round": lambda x: torch.round(x),
    "isnan": lambda x: torch.isnan(x),
    "isinf": lambda x: torch.isinf(x),
    "isfinite": lambda x: torch.isfinite(x),
    "logical_not": lambda x: x == 0,
    "assign": lambda x: x.clone(),
    "nan_to_num": _nan_to_num,
    "scale": _scale,
    "clip": _clip,
    "pow_scalar": _pow_scalar,
}


def _celu(x: Tensor, alpha: float) -> Tensor:
    # The gradient of F.celu rounds 1 / alpha to float32, even in float64, and the gradient of expm1
    # cancels near -1.
    least = torch.clamp(x, max=0) / alpha
    below = alpha * torch.exp(least)
    return torch.where(x <= 0, below + (alpha * torch.expm1(least) - below).detach(), x)


ACTIVATIONS: dict[str, Function] = {
    "sigmoid": lambda x: torch.sigmoid(x),
    "log_sigmoid": lambda x: F.logsigmoid(x),
    "relu": lambda x: torch.relu(x),
    "relu6": lambda x: F.relu6(x),
    "softplus": lambda x: torch.logaddexp(x, torch.zeros_like(x)),  # F.softplus is x from 20 on
    "softsign": lambda x: F.softsign(x),
    "silu": lambda x: F.silu(x),
    "mish": lambda x: F.mish(x),
    "tanh_shrink": lambda x: F.tanhshrink(x),
    "elu": lambda x, alpha: F.elu(x, alpha),
    "selu": lambda x: F.selu(x),
    "celu": _celu,
    "leaky_relu": lambda x, alpha: F.leaky_relu(x, alpha),
    "gelu": lambda x, approximate: F.gelu(x, approximate=approximate),
    "hard_sigmoid": lambda x, alpha, beta: torch.clamp(alpha * x + beta, 0, 1),
    "hard_swish": lambda x: F.hardswish(x),
    "hard_shrink": lambda x, threshold: F.hardshrink(x, threshold),
    "soft_shrink": lambda x, threshold: F.softshrink(x, threshold),
    "thresholded_relu": _thresholded_relu,
    "swish": lambda x, beta: x * torch.sigmoid(beta * x),
    "stanh": lambda x, scale_a, scale_b: scale_b * torch.tanh(scale_a * x),
    "soft_relu": _soft_relu,
}

BINARY: dict[str, Function] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "power": _power,
    "maximum": lambda x, y: torch.maximum(x, y),
    "minimum": lambda x, y: torch.minimum(x, y),
    "mod": _mod,
    "floor_divide": _floor_divide,
    "squared_difference": lambda x, y: torch.square(x - y),
    "atan2": lambda x, y: torch.atan2(x, y),
    "equal": lambda x, y: x == y,
    "not_equal": lambda x, y: x != y,
    "less": lambda x, y: x < y,
    "less_equal": lambda x, y: x <= y,
    "greater": lambda x, y: x > y,
    "greater_equal": lambda x, y: x >= y,
    "logical_and": _logical(torch.logical_and),
    "logical_or": _logical(torch.logical_or),
    "logical_xor": _logical(torch.logical_xor),
    "add_n": lambda x: sum(x[1:], x[0].clone()),
    "where": lambda condition, x, y: torch.where(condition, x, y),
    "lerp": lambda x, y, weight: torch.lerp(*torch.broadcast_tensors(x, y, weight)),
    "prelu": _prelu,
}

OPERATORS = {**UNARY, **ACTIVATIONS, **BINARY}
