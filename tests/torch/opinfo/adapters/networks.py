"""Adapters for activations, normalization, convolutions and attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from .arguments import (
    Adapter,
    RandomError,
    cast,
    floating,
    is_float,
    name_of,
    ops,
    promoted,
    rank_of,
    repeated,
    shape_of,
)


def activation(op: str) -> Adapter:
    def apply(x: Any, inplace: bool = False) -> Any:
        return getattr(ops, op)(x)

    return apply


def with_alpha(op: str, ours: str, theirs: str, default: float) -> Adapter:
    """Return an activation with one numeric parameter."""

    def apply(x: Any, *args: Any, **kwargs: Any) -> Any:
        value = args[0] if args else kwargs.get(theirs, default)
        return getattr(ops, op)(x, **{ours: float(value)})

    return apply


def limit_of(x: Any, number: float) -> float:
    """Return a limit, truncated to an integer if x is an integer tensor, as in PyTorch."""
    return float(number) if is_float(x) else int(number)


def hardtanh(x: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    low, high = (limit_of(x, number) for number in (min_val, max_val))
    below = ops.where(ops.less_equal(x, low), low, x)
    return ops.where(ops.greater_equal(x, high), high, below)


def hardsigmoid(x: Any, inplace: bool = False) -> Any:
    return ops.scale(ops.relu6(ops.scale(x, bias=3.0)), scale=1 / 6)


def softplus(x: Any, beta: float = 1, threshold: float = 20) -> Any:
    inner = ops.scale(x, scale=float(beta))
    soft = ops.scale(ops.softplus(inner), scale=1 / beta)
    return ops.where(ops.less_equal(inner, float(threshold)), soft, x)


def prelu(x: Any, weight: Any) -> Any:
    n = shape_of(weight)[0] if rank_of(weight) else 1
    if not rank_of(x):
        weight = ops.reshape(weight, shape=[])
    if n > 1 and rank_of(x) > 2:
        weight = ops.reshape(weight, shape=[-1, *(1 for _ in shape_of(x)[2:])])
    return ops.prelu(x, weight)


def threshold(x: Any, threshold: float, value: float, inplace: bool = False) -> Any:
    return ops.where(ops.less_equal(x, limit_of(x, threshold)), limit_of(x, value), x)


def rrelu(x: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Any:
    if training:
        raise RandomError("the generator's numbers")
    return ops.leaky_relu(x, alpha=(lower + upper) / 2)


def glu(x: Any, dim: int = -1) -> Any:
    first, second = ops.split(x, axis=dim % rank_of(x), num=2)
    return ops.multiply(first, ops.sigmoid(second))


def along(op: str) -> Adapter:
    def apply(x: Any, dim: int, *, dtype: torch.dtype | None = None, **_: Any) -> Any:
        return getattr(ops, op)(cast(x, name_of(dtype)), axis=dim)

    return apply


def softmin(x: Any, dim: int, *, dtype: torch.dtype | None = None) -> Any:
    return ops.softmax(cast(ops.negative(x), name_of(dtype)), axis=dim)


def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    if rank_of(weight) > 1 and rank_of(x) > 1 and is_float(x):
        attrs = {"num_flatten_dims": rank_of(x) - 1, "transpose_weight": True}
        return ops.fc(x, weight, **given_only(bias=bias), **attrs)
    is_vector = rank_of(weight) == 1
    out = ops.matmul(x, weight) if is_vector else ops.matmul(x, weight, transpose_y=True)
    return out if bias is None else ops.add(out, bias)


def bilinear(x: Any, y: Any, weight: Any, bias: Any = None) -> Any:
    lead = shape_of(x)[:-1]
    rows = [ops.reshape(v, shape=[-1, shape_of(v)[-1]]) for v in (x, y)]
    given = {} if bias is None else {"bias": bias}
    out = ops.bilinear(*rows, weight, **given)
    return ops.reshape(out, shape=[*lead, shape_of(out)[-1]])


def given_only(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def in_batch(x: Any, rank: int, function: Callable[[Any], Any]) -> Any:
    """Call a function that takes an image batch; a single image becomes a batch of 1."""
    if rank_of(x) == rank + 2:
        return function(x)
    results = function(ops.unsqueeze(x, axis=[0]))
    if isinstance(results, (tuple, list)):
        return tuple(ops.squeeze(result, axis=[0]) for result in results)
    return ops.squeeze(results, axis=[0])


def both_sides(sizes: list[int]) -> list[int]:
    return [size for size in sizes for _ in range(2)]


def conv(rank: int) -> Adapter:
    def apply(
        x: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        dilations = repeated(dilation, rank)
        if padding == "valid":
            sides = [0] * (2 * rank)
        elif padding == "same":
            totals = [d * (k - 1) for d, k in zip(dilations, shape_of(weight)[2:])]
            sides = [side for total in totals for side in (total // 2, total - total // 2)]
        else:
            sides = both_sides(repeated(padding, rank))
        attrs = {"strides": repeated(stride, rank), "paddings": sides, "groups": groups}
        call = getattr(ops, f"conv{rank}d")
        given = given_only(bias=bias)
        return in_batch(
            x, rank, lambda image: call(image, weight, dilations=dilations, **attrs, **given)
        )

    return apply


def conv_transpose(rank: int) -> Adapter:
    def apply(
        x: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Any:
        lead = [1] if rank == 1 else []
        attrs = {
            "strides": lead + repeated(stride, rank),
            "paddings": [0, 0] * len(lead) + both_sides(repeated(padding, rank)),
            "dilations": lead + repeated(dilation, rank),
            "output_padding": [0] * len(lead) + repeated(output_padding, rank),
            "groups": groups,
        }
        call = getattr(ops, f"conv{rank + len(lead)}d_transpose")
        filters = ops.unsqueeze(weight, axis=[2]) if lead else weight

        def write(image: Any) -> Any:
            image = ops.unsqueeze(image, axis=[2]) if lead else image
            out = call(image, filters, **attrs, **given_only(bias=bias))
            return ops.squeeze(out, axis=[2]) if lead else out

        return in_batch(x, rank, write)

    return apply


def pad(x: Any, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    paddings = [0, 0] * rank_of(x)
    for i, (before, after) in enumerate(zip(pad[::2], pad[1::2])):
        place = 2 * (rank_of(x) - 1 - i)
        paddings[place : place + 2] = [before, after]
    if mode == "constant":
        number = value or 0
        return ops.pad(x, paddings=paddings, value=float(number))
    if mode == "circular":  # of the remaining ones
        x = ops.pad(x, paddings=[min(width, 0) for width in paddings])
        paddings = [max(width, 0) for width in paddings]
    kinds = {"replicate": "edge", "circular": "wrap"}
    return ops.pad(x, paddings=paddings, mode=kinds.get(mode, mode))


def constant_pad(x: Any, pad_sizes: Any, value: Any = 0) -> Any:
    return pad(x, pad_sizes, value=value)


def unfold(x: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    kernel, dilations, paddings, strides = (
        repeated(v, 2) for v in (kernel_size, dilation, padding, stride)
    )

    attrs = {"kernel": kernel, "strides": strides, "dilations": dilations}

    def write(image: Any) -> Any:
        return ops.unfold(image, paddings=both_sides(paddings), **attrs)

    return in_batch(x, 2, write)


def pairwise_distance(
    x: Any, y: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Any:
    difference = ops.scale(floating(ops.subtract(*promoted(x, y))), bias=float(eps))
    return ops.norm(difference, p=float(p), axis=[-1], keepdims=keepdim)


def cosine_similarity(x: Any, y: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    x, y = promoted(floating(x), floating(y))
    out = ops.cos_sim(x, y, axis=dim, epsilon=float(eps), returns="out")
    return ops.squeeze(out, axis=[dim])


_PLAIN = ("relu", "relu6", "selu", "silu", "mish", "softsign")
_NAMED = {"hardswish": "hard_swish", "logsigmoid": "log_sigmoid", "tanhshrink": "tanh_shrink"}

ADAPTERS: Final[dict[str, Adapter]] = {
    **{f"nn.functional.{name}": activation(name) for name in _PLAIN},
    **{f"nn.functional.{name}": activation(op) for name, op in _NAMED.items()},
    **{f"nn.functional.conv{n}d": conv(n) for n in (1, 2, 3)},
    **{f"nn.functional.conv_transpose{n}d": conv_transpose(n) for n in (1, 2, 3)},
    "constant_pad_nd": constant_pad,
    "log_softmax": along("log_softmax"),
    "nn.functional.bilinear": bilinear,
    "nn.functional.celu": with_alpha("celu", "alpha", "alpha", 1.0),
    "nn.functional.cosine_similarity": cosine_similarity,
    "nn.functional.elu": with_alpha("elu", "alpha", "alpha", 1.0),
    "nn.functional.gelu": lambda x, approximate="none": ops.gelu(x, approximate=approximate),
    "nn.functional.glu": glu,
    "nn.functional.hardshrink": with_alpha("hard_shrink", "threshold", "lambd", 0.5),
    "nn.functional.hardsigmoid": hardsigmoid,
    "nn.functional.hardtanh": hardtanh,
    "nn.functional.leaky_relu": with_alpha("leaky_relu", "alpha", "negative_slope", 0.01),
    "nn.functional.linear": linear,
    "nn.functional.pad": pad,
    "nn.functional.pairwise_distance": pairwise_distance,
    "nn.functional.prelu": prelu,
    "nn.functional.rrelu": rrelu,
    "nn.functional.softmin": softmin,
    "nn.functional.softplus": softplus,
    "nn.functional.softshrink": with_alpha("soft_shrink", "threshold", "lambd", 0.5),
    "nn.functional.threshold": threshold,
    "nn.functional.unfold": unfold,
    "softmax": along("softmax"),
}
