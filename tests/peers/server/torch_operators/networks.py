"""Neural-network operators: convolutions, pooling, normalization, attention, recurrence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from torch_operators.convert import Function, channels_first, pad_spatial, require

Tensor = torch.Tensor


def _conv(rank: int) -> Function:
    function = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]

    def conv(
        x: Tensor,
        weight: Tensor,
        strides: Sequence[int],
        paddings: Sequence[int],
        dilations: Sequence[int],
        groups: int,
        bias: Tensor | None = None,
    ) -> Tensor:
        require(x.numel() * weight.numel() > 0, "convolutions of nothing")
        padded = pad_spatial(x, paddings, 0.0)
        strides, dilations = list(strides) or [1] * rank, list(dilations) or [1] * rank
        return function(padded, weight, bias, strides, 0, dilations, groups)

    return channels_first(conv)


def _conv_transpose(rank: int) -> Function:
    function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]

    def conv(
        x: Tensor,
        weight: Tensor,
        strides: Sequence[int],
        paddings: Sequence[int],
        dilations: Sequence[int],
        groups: int,
        output_padding: Sequence[int] = (),
        bias: Tensor | None = None,
    ) -> Tensor:
        require(not any(output_padding), "output_padding beside paddings in pairs")
        strides, dilations = list(strides) or [1] * rank, list(dilations) or [1] * rank
        out = function(x, weight, bias, strides, 0, 0, groups, dilations)
        return pad_spatial(out, [-n for n in paddings], 0.0)

    return channels_first(conv)


def _begins(paddings: Sequence[int], kernel: Sequence[int]) -> list[int] | None:
    """Return one padding per axis, as PyTorch takes it, or None if PyTorch cannot express it."""
    pairs = list(zip(paddings[::2], paddings[1::2], strict=True))
    fits = all(a == b and 2 * a <= k for (a, b), k in zip(pairs, kernel, strict=True))
    return [a for a, _ in pairs] if fits else None


def _max_pool(rank: int) -> Function:
    function = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[rank - 1]

    def pool(
        x: Tensor,
        kernel: Sequence[int],
        strides: Sequence[int],
        paddings: Sequence[int],
        ceil_mode: bool,
        dilations: Sequence[int],
    ) -> Any:
        begins = _begins(paddings, kernel)
        require(begins is not None or not ceil_mode, "uneven paddings with ceil_mode")
        if begins is None:
            require(x.is_floating_point(), "the lowest integer around images")
            padded = pad_spatial(x, paddings, -torch.inf)
            return function(padded, kernel, list(strides) or None, 0, dilations), None
        out, index = function(
            x, kernel, list(strides) or None, begins, dilations, ceil_mode, return_indices=True
        )
        return out, index

    return channels_first(pool)


def _avg_pool(rank: int) -> Function:
    function = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[rank - 1]

    def pool(
        x: Tensor,
        kernel: Sequence[int],
        strides: Sequence[int],
        paddings: Sequence[int],
        ceil_mode: bool,
        count_include_pad: bool,
        dilations: Sequence[int],
        divisor: int,
    ) -> Tensor:
        require(set(dilations) <= {1} and not divisor, "windows with gaps, or another divisor")
        require(x.is_floating_point(), "means of integers")
        begins = _begins(paddings, kernel)
        if begins is not None:
            steps = list(strides) or list(kernel)
            return function(x, kernel, steps, begins, ceil_mode, count_include_pad)
        require(count_include_pad and not ceil_mode, "uneven paddings that do not count")
        return function(pad_spatial(x, paddings, 0.0), kernel, list(strides) or list(kernel))

    return channels_first(pool)


def _batch_norm(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    variance: Tensor,
    momentum: float,
    epsilon: float,
    training: bool,
    unbiased: bool = False,
) -> Any:
    enough = 1 if training else 0
    require(x.numel() > enough * x.shape[1], "batches without elements, or of one in training")
    mean, variance = mean.clone(), variance.clone()
    out = F.batch_norm(x, mean, variance, scale, bias, training, 1 - momentum, epsilon)
    # The running variance in PyTorch is unbiased, so biased variances are not compared.
    return (out,) if training and not unbiased else (out, mean, variance)


def _layer_norm(
    x: Tensor,
    begin_norm_axis: int,
    epsilon: float,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    shape = x.shape[begin_norm_axis:]
    scale = None if scale is None else scale.reshape(shape)
    return F.layer_norm(x, shape, scale, None if bias is None else bias.reshape(shape), epsilon)


def _rms_norm(x: Tensor, epsilon: float, scale: Tensor | None = None, **axis: int) -> Tensor:
    begin = axis.get("begin_norm_axis", x.dim() - 1)
    shape = x.shape[begin:]
    return F.rms_norm(x, shape, None if scale is None else scale.reshape(shape), epsilon)


@channels_first
def _group_norm(
    x: Tensor, groups: int, epsilon: float, scale: Tensor | None = None, bias: Tensor | None = None
) -> Tensor:
    require(x.numel() == 0 or x[0].numel() > groups, "groups of one element")
    return F.group_norm(x, groups, scale, bias, epsilon)


@channels_first
def _instance_norm(
    x: Tensor, epsilon: float, scale: Tensor | None = None, bias: Tensor | None = None
) -> Tensor:
    require(x[0, 0].numel() > 1, "instances of one element")
    return F.instance_norm(x, weight=scale, bias=bias, eps=epsilon)


def _dropout(x: Tensor, probability: float, training: bool) -> Any:
    require(not training, "masks are drawn otherwise")
    return x, None


def _fc(
    x: Tensor, weight: Tensor, num_flatten_dims: int, activation: str, bias: Tensor | None = None
) -> Tensor:
    rows = x.reshape(*x.shape[:num_flatten_dims], -1)
    out = rows @ weight if bias is None else rows @ weight + bias
    functions: dict[str, Function] = {
        "": lambda x: x,
        "relu": torch.relu,
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh,
        "softmax": lambda x: torch.softmax(x, -1),
    }
    require(activation in functions, f"activation {activation}")
    return functions[activation](out)


def _embedding(weight: Tensor, index: Tensor, padding_index: int) -> Tensor:
    # PyTorch reads the padding row, whereas opwright returns zeros.
    out = weight[index.long()]
    hidden = (index == padding_index)[..., None] if padding_index >= 0 else torch.tensor(False)
    return torch.where(hidden, torch.zeros_like(out), out)


def _attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    causal: bool,
    scale: float | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    require(not (causal and mask is not None), "a mask beside causal")
    shared = q.dim() > 3 and q.shape[-3] != k.shape[-3]
    return F.scaled_dot_product_attention(
        q, k, v, mask, is_causal=causal, scale=scale or None, enable_gqa=shared
    )


def _cached_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    past_k: Tensor,
    past_v: Tensor,
    causal: bool,
    scale: float | None = None,
    mask: Tensor | None = None,
) -> tuple[Tensor, ...]:
    k, v = torch.cat([past_k, k], -2), torch.cat([past_v, v], -2)
    if causal:
        require(mask is None, "a mask beside causal")
        queries, keys = q.shape[-2], k.shape[-2]
        mask = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)
    return _attention(q, k, v, False, scale, mask), k, v


def _lrn(x: Tensor, size: int, alpha: float, beta: float, bias: float) -> Tensor:
    require(
        size % 2 == 1 and x.dim() > 2,
        "an even number of neighbors, of which ours has fewer before",
    )
    return F.local_response_norm(x, size, alpha, beta, bias)


def _maxout(x: Tensor, groups: int, axis: int) -> Tensor:
    axis %= x.dim()
    shape = (*x.shape[:axis], x.shape[axis] // groups, groups, *x.shape[axis + 1 :])
    return x.reshape(shape).amax(axis + 1)


def _rotary(
    x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool, index: Tensor | None = None
) -> Tensor:
    places = torch.arange(x.shape[-2]) if index is None else index.long()
    turn = torch.complex(cos[places], sin[places])
    if places.dim() == 2:  # [n, t] next to [n, ..., t, half]
        turn = turn.reshape(turn.shape[0], *[1] * (x.dim() - 3), *turn.shape[1:])
    half = cos.shape[1]
    front, rest = x[..., : 2 * half], x[..., 2 * half :]
    pairs = front.unflatten(-1, (half, 2) if interleaved else (2, half))
    pairs = pairs if interleaved else pairs.transpose(-1, -2)
    turned = torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * turn)
    turned = turned if interleaved else turned.transpose(-1, -2)
    return torch.cat([turned.flatten(-2), rest], -1)


def _interpolate(x: Tensor, output_size: Sequence[int], mode: str, align_corners: bool) -> Tensor:
    require(mode == "bilinear" or not align_corners, "corners of the nearest pixels")
    corners = align_corners if mode == "bilinear" else None
    return F.interpolate(x, tuple(output_size), mode=mode, align_corners=corners)


def _resize(
    x: Tensor, output_size: Sequence[int], mode: str, coordinates: str, antialias: bool
) -> Tensor:
    require(x.dim() == len(output_size) + 2, "axes besides those of images")
    require(mode != "nearest", "the element that is nearest")
    require(coordinates in ("half_pixel", "align_corners"), "where places lie")
    require(not antialias or mode == "linear", "another cubic function")
    require(mode != "cubic" or len(output_size) == 2, "a cubic function but in images")
    lines = {1: "linear", 2: "bilinear", 3: "trilinear"}[len(output_size)]
    kind = {"linear": lines, "cubic": "bicubic", "area": "area"}[mode]
    corners = None if mode == "area" else coordinates == "align_corners"
    size = tuple(output_size)
    return F.interpolate(x, size, mode=kind, align_corners=corners, antialias=antialias)


def _multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    num_heads: int,
    causal: bool,
    mask: Tensor | None = None,
    **weights: Tensor,
) -> Tensor:
    """Project and attend; the PyTorch function for this takes masks of a different shape."""

    def project(x: Tensor, part: str) -> Tensor:
        bias = weights.get(f"{part}_bias")
        return F.linear(x, weights[f"{part}_weight"].T, bias)

    parts = [
        project(x, part).unflatten(-1, (num_heads, -1)).transpose(1, 2)
        for x, part in ((query, "q"), (key, "k"), (value, "v"))
    ]
    if causal:
        seen = torch.ones(query.shape[1], key.shape[1], dtype=torch.bool).tril()
        hidden = torch.zeros(seen.shape, dtype=query.dtype).masked_fill(~seen, -torch.inf)
        given = 0.0 if mask is None else mask
        if mask is not None and mask.dtype == torch.bool:
            given = torch.zeros(mask.shape, dtype=query.dtype).masked_fill(~mask, -torch.inf)
        mask = given + hidden
    out = F.scaled_dot_product_attention(*parts, attn_mask=mask)
    return project(out.transpose(1, 2).flatten(2), "out")


OPERATORS: dict[str, Function] = {
    "conv1d": _conv(1),
    "conv2d": _conv(2),
    "conv3d": _conv(3),
    "conv1d_transpose": _conv_transpose(1),
    "conv2d_transpose": _conv_transpose(2),
    "multi_head_attention": _multi_head_attention,
    "conv3d_transpose": _conv_transpose(3),
    "max_pool1d": _max_pool(1),
    "max_pool2d": _max_pool(2),
    "max_pool3d": _max_pool(3),
    "avg_pool1d": _avg_pool(1),
    "avg_pool2d": _avg_pool(2),
    "avg_pool3d": _avg_pool(3),
    "adaptive_avg_pool2d": channels_first(
        lambda x, output_size: F.adaptive_avg_pool2d(x, tuple(output_size))
    ),
    "adaptive_max_pool2d": channels_first(
        lambda x, output_size: (F.adaptive_max_pool2d(x, tuple(output_size)),)
    ),
    "adaptive_avg_pool3d": channels_first(
        lambda x, output_size: F.adaptive_avg_pool3d(x, tuple(output_size))
    ),
    "adaptive_max_pool3d": channels_first(
        lambda x, output_size: (F.adaptive_max_pool3d(x, tuple(output_size)),)
    ),
    "pixel_shuffle": channels_first(lambda x, factor: F.pixel_shuffle(x, factor)),
    "interpolate": channels_first(_interpolate),
    "resize": _resize,
    "batch_norm": _batch_norm,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "group_norm": _group_norm,
    "instance_norm": _instance_norm,
    "lrn": _lrn,
    "maxout": _maxout,
    "rotary_embedding": _rotary,
    "softmax": lambda x, axis: torch.softmax(x, axis),
    "log_softmax": lambda x, axis: torch.log_softmax(x, axis),
    "dropout": _dropout,
    "fc": _fc,
    "embedding": _embedding,
    "cached_attention": _cached_attention,
    "scaled_dot_product_attention": _attention,
}
