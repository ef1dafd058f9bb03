"""Pooling of images: max_pool2d, avg_pool2d, adaptive_avg_pool2d."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import opwright as ow
from opwright_nn import checks, operators
from opwright_nn.layers.images import Images
from opwright_nn.layers.layer import begin


@ow.transaction()
def max_pool2d(
    x: ow.Variable,
    kernel: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    paddings: str | int | Sequence[int] = 0,
    *,
    ceil_mode: bool = False,
    data_format: str = "NCHW",
    name: str | None = None,
) -> ow.Variable:
    """Append the maximum of each window; padding never counts.

    Parameters
    ----------
    x : Variable, [n, channels, height, width]
        Or [n, height, width, channels], see `data_format`.
    kernel : int or pair of int, at least 1
        Height and width of the window.
    strides : int or pair of int, at least 1, optional
        The step of the window, down and across; by default its size.
    paddings : int, pair, four ints, "same" or "valid"
        As in `layers.conv2d`, but smaller than the window.
    ceil_mode : bool
        Whether a last window may extend beyond the padding.
    data_format : str
        "NCHW" or "NHWC".
    name : str, optional
        The prefix of the names of its variables.
    """
    return _append_pool("max_pool2d", x, kernel, strides, paddings, ceil_mode, data_format, name)


@ow.transaction()
def avg_pool2d(
    x: ow.Variable,
    kernel: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    paddings: str | int | Sequence[int] = 0,
    *,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    data_format: str = "NCHW",
    name: str | None = None,
) -> ow.Variable:
    """Append the mean of each window.

    Parameters
    ----------
    x, kernel, strides, paddings, ceil_mode, data_format, name
        As in `layers.max_pool2d`.
    count_include_pad : bool
        Whether padding counts as zeros. (PyTorch's default is True.)
    """
    with_pad = checks.check_bool("avg_pool2d", "count_include_pad", count_include_pad)
    return _append_pool(
        "avg_pool2d",
        x,
        kernel,
        strides,
        paddings,
        ceil_mode,
        data_format,
        name,
        count_include_pad=with_pad,
    )


@ow.transaction()
def adaptive_avg_pool2d(
    x: ow.Variable,
    output_size: int | Sequence[int],
    *,
    data_format: str = "NCHW",
    name: str | None = None,
) -> ow.Variable:
    """Append the mean of each of `output_size` bins, whatever the size of x.

    Parameters
    ----------
    x : Variable, [n, channels, height, width]
        Or [n, height, width, channels], see `data_format`.
    output_size : int or pair of int, at least 1
        Height and width of the output; 1 gives the mean of each channel.
    data_format : str
        "NCHW" or "NHWC".
    name : str, optional
        The prefix of the names of its variables.
    """
    who = "adaptive_avg_pool2d"
    images = Images(who, x, data_format)
    attrs = {
        "output_size": checks.check_pair(who, "output_size", output_size, at_least=1),
        "data_format": images.data_format,
    }
    images.shape()
    layer = begin(who, name)
    return operators.append(layer.block, who, {"x": x}, attrs, name=layer.out)


def _append_pool(
    who: str,
    x: object,
    kernel: object,
    strides: object,
    paddings: object,
    ceil_mode: object,
    data_format: object,
    name: str | None,
    **more: Any,
) -> ow.Variable:
    images = Images(who, x, data_format)
    size = checks.check_pair(who, "kernel", kernel, at_least=1)
    steps = size if strides is None else checks.check_pair(who, "strides", strides, at_least=1)
    attrs: dict[str, Any] = {
        "kernel": size,
        "paddings": images.paddings(checks.check_paddings(who, paddings), size, steps),
        "ceil_mode": checks.check_bool(who, "ceil_mode", ceil_mode),
        "data_format": images.data_format,
        **more,
    }
    if steps != size:
        attrs["strides"] = steps
    images.shape()
    layer = begin(who, name)
    return operators.append(layer.block, who, {"x": images.variable}, attrs, name=layer.out)
