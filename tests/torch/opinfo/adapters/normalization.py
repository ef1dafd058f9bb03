"""Adapters for normalization by statistics."""

from __future__ import annotations

import math
from typing import Any, Final

import torch

from .arguments import (
    Adapter,
    UnmappedError,
    dtype_of,
    floating,
    ops,
    rank_of,
    shape_of,
)
from .networks import given_only


def ones_for(x: Any, n: int, value: float) -> Any:
    return ops.fill(shape=[n], value=value, dtype=dtype_of(x))


def batch_norm(
    x: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *_: Any,
) -> Any:
    if rank_of(x) < 2:
        raise UnmappedError("a batch without channels")
    n = shape_of(x)[1]
    given = zip((weight, bias, running_mean, running_var), (1.0, 0.0, 0.0, 1.0))
    inputs = [ones_for(x, n, value) if v is None else v for v, value in given]
    is_training = training or running_mean is None
    attrs = {"training": is_training, "unbiased": True, "momentum": 1 - momentum}
    return ops.batch_norm(x, *inputs, epsilon=eps, returns="out", **attrs)


def native_batch_norm(
    x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float
) -> Any:
    n = shape_of(x)[1]
    given = zip((weight, bias, mean, var), (1.0, 0.0, 0.0, 1.0))
    inputs = [ones_for(x, n, value) if v is None else v for v, value in given]
    attrs = {"training": training, "unbiased": True, "momentum": 1 - momentum}
    wanted = ["out", "saved_mean", "saved_inv_std"]
    out, *saved = ops.batch_norm(x, *inputs, epsilon=eps, returns=wanted, **attrs)
    if not training:
        saved = [ops.fill(shape=[0], dtype=dtype_of(x))] * 2
    return out, *saved


def instance_norm(
    x: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    if not use_input_stats:
        return batch_norm(x, running_mean, running_var, weight, bias, eps=eps)
    given = given_only(scale=weight, bias=bias)
    return ops.instance_norm(x, epsilon=eps, returns="out", **given)


def layer_norm(
    x: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    return native_layer_norm(x, normalized_shape, weight, bias, eps)[0]


def native_layer_norm(x: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    begin, shape = rank_of(x) - len(normalized_shape), shape_of(x)
    wide = x if begin else ops.unsqueeze(x, axis=[0])
    given = given_only(scale=weight, bias=bias)
    attrs = {"begin_norm_axis": max(begin, 1), "epsilon": eps}
    out, mean, inverse = ops.layer_norm(wide, returns=["out", "mean", "inv_std"], **given, **attrs)
    saved = [*shape[:begin], *(1 for _ in normalized_shape)]
    statistics = [ops.reshape(value, shape=saved) for value in (mean, inverse)]
    return ops.reshape(out, shape=shape), *statistics


def rms_norm(x: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    begin, shape = rank_of(x) - len(normalized_shape), shape_of(x)
    wide = x if begin else ops.unsqueeze(x, axis=[0])
    epsilon = torch.finfo(getattr(torch, dtype_of(x))).eps if eps is None else eps
    attrs = {"begin_norm_axis": max(begin, 1), "epsilon": epsilon}
    out = ops.rms_norm(wide, returns="out", **given_only(scale=weight), **attrs)
    return ops.reshape(out, shape=shape)


def group_norm(
    x: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    given = given_only(scale=weight, bias=bias)
    return ops.group_norm(x, groups=num_groups, epsilon=eps, returns="out", **given)


def native_group_norm(
    x: Any, weight: Any, bias: Any, n: int, c: int, hw: int, group: int, eps: float
) -> Any:
    given = given_only(scale=weight, bias=bias)
    image = ops.reshape(x, shape=[n, c, hw])
    wanted = ["out", "mean", "inv_std"]
    out, *saved = ops.group_norm(image, groups=group, epsilon=eps, returns=wanted, **given)
    statistics = [ops.reshape(value, shape=[n, group]) for value in saved]
    return ops.reshape(out, shape=shape_of(x)), *statistics


def local_response_norm(
    x: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Any:
    shape = shape_of(x)
    lead = shape if len(shape) > 3 else [*shape, *[1] * (4 - len(shape))]
    image = ops.reshape(x, shape=[*lead[:2], math.prod(lead[2:-1]), lead[-1]])
    if math.prod(shape) == 0:
        return ops.assign(x)
    image, x = floating(image), floating(x)
    # PyTorch pads size // 2 channels in front, which shifts windows of even size by one channel.
    squares = ops.reshape(ops.square(image), shape=[lead[0], 1, lead[1], -1])
    paddings = [0, 0, 0, 0, size // 2, (size - 1) // 2, 0, 0]
    means = ops.avg_pool2d(ops.pad(squares, paddings=paddings), kernel=[size, 1], strides=[1, 1])
    means = ops.reshape(means, shape=shape)
    return ops.divide(x, ops.pow_scalar(ops.scale(means, scale=alpha, bias=k), exponent=beta))


def normalize(x: Any, p: float = 2.0, dim: Any = 1, eps: float = 1e-12) -> Any:
    axes = [dim] if isinstance(dim, int) else list(dim)
    length = ops.norm(x, p=float(p), axis=axes, keepdims=True)
    return ops.divide(x, ops.clip(length, min=eps))


ADAPTERS: Final[dict[str, Adapter]] = {
    "native_batch_norm": native_batch_norm,
    "native_group_norm": native_group_norm,
    "native_layer_norm": native_layer_norm,
    "nn.functional.batch_norm": batch_norm,
    "nn.functional.group_norm": group_norm,
    "nn.functional.instance_norm": instance_norm,
    "nn.functional.layer_norm": layer_norm,
    "nn.functional.local_response_norm": local_response_norm,
    "nn.functional.normalize": normalize,
    "nn.functional.rms_norm": rms_norm,
}
