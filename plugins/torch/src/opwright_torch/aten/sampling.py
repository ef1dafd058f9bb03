"""Grid sampling, unfolding, unpooling, embedding bags and determinants."""

from __future__ import annotations

import math
from typing import Any, Final

from opwright_torch.aten.convolutions import both_sides, each_axis, in_batch
from opwright_torch.aten.indexing import positions
from opwright_torch.aten.shapes import rank
from opwright_torch.translate import Decline, Rows, Translator
from opwright_torch.translate.translator import Value

ROWS: Final = Rows()

MODES: Final = ("bilinear", "nearest", "bicubic")
PADDING_MODES: Final = ("zeros", "border", "reflection")
BAG_MODES: Final = ("sum", "mean", "max")


@ROWS.row("aten::grid_sampler", "aten::grid_sampler_2d", "aten::grid_sampler_3d")
def grid_sampler(
    t: Translator,
    input: Value,
    grid: Value,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> Value:
    """Sample images at a grid of positions."""
    return t.op(
        "grid_sample",
        input,
        grid,
        mode=MODES[interpolation_mode],
        padding_mode=PADDING_MODES[padding_mode],
        align_corners=align_corners,
    )


@ROWS.row("aten::affine_grid_generator")
def affine_grid(t: Translator, theta: Value, size: Value, align_corners: bool) -> Value:
    """Return the sampling grids of affine maps."""
    return t.op("affine_grid", theta, output_size=list(size[2:]), align_corners=align_corners)


def _windows(kernel_size: Value, dilation: Value, padding: Value, stride: Value) -> dict[str, Any]:
    return {
        "kernel": each_axis(kernel_size, 2),
        "dilations": each_axis(dilation, 2),
        "paddings": both_sides(each_axis(padding, 2)),
        "strides": each_axis(stride, 2),
    }


@ROWS.row("aten::im2col")
def im2col(
    t: Translator,
    input: Value,
    kernel_size: Value,
    dilation: Value,
    padding: Value,
    stride: Value,
) -> Value:
    """Return the windows of images as columns."""
    attrs = _windows(kernel_size, dilation, padding, stride)
    return in_batch(t, input, 2, lambda x: t.op("unfold", x, **attrs))


@ROWS.row("aten::col2im")
def col2im(
    t: Translator,
    input: Value,
    output_size: Value,
    kernel_size: Value,
    dilation: Value,
    padding: Value,
    stride: Value,
) -> Value:
    """Sum columns into images (col2im)."""
    attrs = _windows(kernel_size, dilation, padding, stride)
    attrs["output_size"] = each_axis(output_size, 2)
    return in_batch(t, input, 1, lambda x: t.op("fold", x, **attrs))


@ROWS.row("aten::max_unpool2d", "aten::max_unpool3d")
def max_unpool(
    t: Translator,
    input: Value,
    indices: Value,
    output_size: Value,
    stride: Value = None,
    padding: Value = None,
) -> Value:
    """Scatter pooled values back to their indices."""
    count = len(output_size)
    single = rank(input) == count + 1
    index = t.cast(indices, "int32")
    x, index = (t.op("unsqueeze", v, axis=[0]) if single else v for v in (input, index))
    out = t.op(f"max_unpool{count}d", x, index, output_size=list(output_size))
    return t.op("squeeze", out, axis=[0]) if single else out


@ROWS.row(
    "aten::embedding_bag",
    "aten::embedding_bag.padding_idx",
    "aten::_embedding_bag",
    "aten::_embedding_bag_forward_only",
)
def embedding_bag(
    t: Translator,
    weight: Value,
    indices: Value,
    offsets: Value,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Value = None,
    include_last_offset: bool = False,
    padding_idx: int | None = -1,
) -> Value:
    """Return sums, means or maxima of bags of rows; results for PyTorch's backward are None."""
    if scale_grad_by_freq and t.trains(weight):
        raise Decline("scale_grad_by_freq=True")
    out = t.op(
        "embedding_bag",
        weight,
        positions(t, indices),
        positions(t, offsets),
        per_sample_weights,
        mode=BAG_MODES[mode],
        padding_index=-1 if padding_idx is None else padding_idx,
        include_last_offset=include_last_offset,
    )
    return out, None, None, None


@ROWS.row("aten::det", "aten::linalg_det", "aten::_linalg_det")
def det(t: Translator, A: Value = None, input: Value = None) -> Value:  # noqa: N803
    """Return determinants."""
    out = t.op("det", input if A is None else A)
    return (out, None, None) if t.node.target.name() == "aten::_linalg_det" else out


@ROWS.row("aten::slogdet", "aten::linalg_slogdet", "aten::_linalg_slogdet")
def slogdet(t: Translator, A: Value = None, input: Value = None) -> Value:  # noqa: N803
    """Return the signs of determinants and the logarithms of their absolute values."""
    sign, logarithm = t.op("slogdet", input if A is None else A, n=2)
    is_inner = t.node.target.name() == "aten::_linalg_slogdet"
    return (sign, logarithm, None, None) if is_inner else (sign, logarithm)


@ROWS.row("torchvision::deform_conv2d")
def deform_conv2d(
    t: Translator,
    input: Value,
    weight: Value,
    offset: Value,
    mask: Value,
    bias: Value,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> Value:
    """Append a deformable convolution."""
    if not math.prod(t.shape(offset)):
        raise Decline("no images")
    return t.op(
        "deform_conv2d",
        input,
        weight,
        offset,
        mask if use_mask else None,
        bias,
        strides=[stride_h, stride_w],
        paddings=[pad_h, pad_h, pad_w, pad_w],
        dilations=[dilation_h, dilation_w],
        groups=groups,
        offset_groups=offset_groups,
    )
