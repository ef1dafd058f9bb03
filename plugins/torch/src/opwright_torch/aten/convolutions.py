"""Convolutions and their transposes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from opwright_torch.translate import Decline, Rows, Translator
from opwright_torch.translate.translator import Value

ROWS: Final = Rows()


def each_axis(value: Any, rank: int) -> list[int]:
    """Repeat a size, or the element of a one-element list, for all spatial axes."""
    sizes = list(value) if isinstance(value, (tuple, list)) else [value]
    return sizes * rank if len(sizes) == 1 else sizes


def both_sides(sizes: Iterable[int]) -> list[int]:
    """Return the paddings at both ends of each axis."""
    return [size for size in sizes for _ in range(2)]


def in_batch(t: Translator, x: Value, rank: int, function: Callable[[Value], Value]) -> Value:
    """Call a function on a batch of images; a single image becomes a batch of 1."""
    if len(x.shape) == rank + 2:
        return function(x)
    results = function(t.op("unsqueeze", x, axis=[0]))
    if isinstance(results, tuple):
        return tuple(t.op("squeeze", result, axis=[0]) for result in results)
    return t.op("squeeze", results, axis=[0])


def _paddings(padding: Value, kernel: list[int], dilation: list[int]) -> list[int]:
    if padding == "valid":
        return [0, 0] * len(kernel)
    if padding == "same":
        totals = [step * (size - 1) for step, size in zip(dilation, kernel)]
        return [side for total in totals for side in (total // 2, total - total // 2)]
    return both_sides(each_axis(padding, len(kernel)))


@ROWS.row("aten::conv1d", "aten::conv2d", "aten::conv3d")
def conv(
    t: Translator,
    input: Value,
    weight: Value,
    bias: Value,
    stride: Value,
    padding: Value,
    dilation: Value,
    groups: int,
) -> Value:
    """Cross-correlate images with kernels."""
    rank = len(weight.shape) - 2
    kernel, dilations = t.shape(weight)[2:], each_axis(dilation, rank)
    attrs: dict[str, Any] = {
        "strides": each_axis(stride, rank),
        "paddings": _paddings(padding, kernel, dilations),
        "dilations": dilations,
        "groups": groups,
    }
    return in_batch(t, input, rank, lambda x: t.op(f"conv{rank}d", x, weight, bias, **attrs))


@ROWS.row("aten::conv_transpose1d", "aten::conv_transpose2d", "aten::conv_transpose3d")
def conv_transpose(
    t: Translator,
    input: Value,
    weight: Value,
    bias: Value,
    stride: Value,
    padding: Value,
    output_padding: Value,
    groups: int,
    dilation: Value,
) -> Value:
    """Return the gradient of a convolution with respect to its input."""
    rank = len(weight.shape) - 2
    strides, dilations = each_axis(stride, rank), each_axis(dilation, rank)
    paddings, more = each_axis(padding, rank), each_axis(output_padding, rank)
    attrs: dict[str, Any] = {
        "strides": strides,
        "paddings": both_sides(paddings),
        "dilations": dilations,
        "output_padding": more,
        "groups": groups,
    }
    op_type = f"conv{rank}d_transpose"
    return in_batch(t, input, rank, lambda x: t.op(op_type, x, weight, bias, **attrs))


@ROWS.row("aten::convolution", "aten::_convolution")
def convolution(t: Translator, transposed: bool, output_padding: Value, **given: Value) -> Value:
    """Append a convolution or a transposed convolution."""
    names = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
    arguments = {name: given[name] for name in names}
    if transposed:
        return conv_transpose(t, output_padding=output_padding, **arguments)
    if any(each_axis(output_padding, 1)):
        raise Decline(f"the output is padded, got output_padding={output_padding}")
    return conv(t, **arguments)
