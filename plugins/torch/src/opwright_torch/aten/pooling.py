"""Pooling and pixel shuffle of images."""

from __future__ import annotations

from typing import Any, Final

from opwright_torch.aten.convolutions import both_sides, each_axis, in_batch
from opwright_torch.translate import Rows, Translator
from opwright_torch.translate.translator import Value

ROWS: Final = Rows()


def _spatial_rank(t: Translator) -> int:
    """Return the number of spatial axes from an operator name such as max_pool2d."""
    name: str = t.node.target._schema.name
    return next(int(digit) for digit in name if digit.isdigit())


def _windows(
    t: Translator, kernel_size: Value, stride: Value, padding: Value, ceil_mode: bool
) -> dict[str, Any]:
    rank = _spatial_rank(t)
    kernel = each_axis(kernel_size, rank)
    return {
        "kernel": kernel,
        "strides": each_axis(stride, rank) if stride else kernel,
        "paddings": both_sides(each_axis(padding, rank)),
        "ceil_mode": ceil_mode,
    }


@ROWS.row(
    "aten::max_pool1d_with_indices",
    "aten::max_pool2d_with_indices",
    "aten::max_pool3d_with_indices",
)
def max_pool_with_indices(
    t: Translator,
    input: Value,
    kernel_size: Value,
    stride: Value,
    padding: Value,
    dilation: Value,
    ceil_mode: bool,
) -> Value:
    """Return the maximum of each window, and its index."""
    rank, attrs = _spatial_rank(t), _windows(t, kernel_size, stride, padding, ceil_mode)
    attrs["dilations"] = each_axis(dilation, rank)

    def write(x: Value) -> Value:
        out, index = t.op(f"max_pool{rank}d", x, n=2, **attrs)
        return out, t.cast(index, "int64")

    return in_batch(t, input, rank, write)


@ROWS.row("aten::max_pool1d", "aten::max_pool2d", "aten::max_pool3d")
def max_pool(t: Translator, **arguments: Value) -> Value:
    """Return the maximum of each window."""
    return max_pool_with_indices(t, **arguments)[0]


@ROWS.row("aten::avg_pool1d", "aten::avg_pool2d", "aten::avg_pool3d")
def avg_pool(
    t: Translator,
    input: Value,
    kernel_size: Value,
    stride: Value,
    padding: Value,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None = None,
) -> Value:
    """Return the mean of each window."""
    rank, attrs = _spatial_rank(t), _windows(t, kernel_size, stride, padding, ceil_mode)
    attrs["count_include_pad"] = count_include_pad
    attrs["divisor"] = divisor_override or 0
    return in_batch(t, input, rank, lambda x: t.op(f"avg_pool{rank}d", x, **attrs))


@ROWS.row(
    "aten::adaptive_avg_pool1d",
    "aten::adaptive_avg_pool2d",
    "aten::_adaptive_avg_pool2d",
    "aten::adaptive_avg_pool3d",
    "aten::_adaptive_avg_pool3d",
)
def adaptive_avg_pool(t: Translator, input: Value, output_size: Value) -> Value:
    """Return the mean of each bin; 1-d inputs are treated as images of height 1."""
    rank = _spatial_rank(t)
    sizes = each_axis(output_size, rank)

    def write(x: Value) -> Value:
        if rank > 1:
            return t.op(f"adaptive_avg_pool{rank}d", x, output_size=sizes)
        image = t.op("unsqueeze", x, axis=[2])
        pooled = t.op("adaptive_avg_pool2d", image, output_size=[1, *sizes])
        return t.op("squeeze", pooled, axis=[2])

    return in_batch(t, input, rank, write)


@ROWS.row("aten::adaptive_max_pool1d", "aten::adaptive_max_pool2d", "aten::adaptive_max_pool3d")
def adaptive_max_pool(t: Translator, input: Value, output_size: Value) -> Value:
    """Return each bin's maximum and its index; 1-d inputs are treated as images of height 1."""
    rank = _spatial_rank(t)
    sizes = each_axis(output_size, rank)

    def write(x: Value) -> Value:
        if rank == 1:
            x = t.op("unsqueeze", x, axis=[2])
        size = sizes if rank > 1 else [1, *sizes]
        results = t.op(f"adaptive_max_pool{max(rank, 2)}d", x, output_size=size, n=2)
        if rank == 1:
            results = tuple(t.op("squeeze", result, axis=[2]) for result in results)
        return results[0], t.cast(results[1], "int64")

    return in_batch(t, input, rank, write)


@ROWS.row("aten::pixel_shuffle")
def pixel_shuffle(t: Translator, input: Value, upscale_factor: int) -> Value:
    """Rearrange channels into pixels."""
    return in_batch(t, input, 2, lambda x: t.op("pixel_shuffle", x, factor=upscale_factor))
