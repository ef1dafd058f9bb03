"""Pooling of sequences, images and volumes: maximum or mean of each window, or of each bin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import opwright as ow
from opwright_nn import checks
from opwright_nn.layers.images import Images
from opwright_nn.layers.inputs import Input
from opwright_nn.layers.layer import append_layer


@ow.transaction()
def max_pool1d(
    input: Input,
    kernel: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    paddings: str | int | Sequence[int] = 0,
    *,
    dilations: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    data_format: str = "NCL",
    name: str | None = None,
) -> ow.Variable:
    """Append the maximum of each window of sequences.

    Parameters
    ----------
    input : Variable or str, [n, channels, length]
        Or [n, length, channels] with ``data_format="NLC"``.
    kernel, strides, paddings, dilations, ceil_mode, name
        As in `layers.max_pool2d`, with one size, or a pair of paddings.
    data_format : str
        "NCL" or "NLC".
    """
    windows = (kernel, strides, paddings, dilations)
    return _append_pool(
        "max_pool1d", 1, input, windows, {"ceil_mode": ceil_mode}, data_format, name
    )


@ow.transaction()
def max_pool2d(
    input: Input,
    kernel: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    paddings: str | int | Sequence[int] = 0,
    *,
    dilations: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    data_format: str = "NCHW",
    name: str | None = None,
) -> ow.Variable:
    """Append the maximum of each window; padding never counts.

    Parameters
    ----------
    input : Variable or str, [n, channels, height, width]
        Or [n, height, width, channels], see `data_format`.
    kernel : int or pair of int, at least 1
        Height and width of the window.
    strides : int or pair of int, at least 1, optional
        The step of the window, down and across; by default its size.
    paddings : int, pair, four ints, "same" or "valid"
        As in `layers.conv2d`, but smaller than the window.
    dilations : int or pair of int, at least 1
        The distance between elements of a window, down and across.
    ceil_mode : bool
        Whether a last window may extend beyond the padding.
    data_format : str
        "NCHW" or "NHWC".
    name : str, optional
        The prefix of the layer's variable names.
    """
    windows = (kernel, strides, paddings, dilations)
    return _append_pool(
        "max_pool2d", 2, input, windows, {"ceil_mode": ceil_mode}, data_format, name
    )


@ow.transaction()
def max_pool3d(
    input: Input,
    kernel: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    paddings: str | int | Sequence[int] = 0,
    *,
    dilations: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> ow.Variable:
    """Append the maximum of each window of volumes.

    Parameters
    ----------
    input : Variable or str, [n, channels, depth, height, width]
        Or [n, depth, height, width, channels] with ``data_format="NDHWC"``.
    kernel, strides, paddings, dilations, ceil_mode, name
        As in `layers.max_pool2d`, with three sizes, or six paddings.
    data_format : str
        "NCDHW" or "NDHWC".
    """
    windows = (kernel, strides, paddings, dilations)
    return _append_pool(
        "max_pool3d", 3, input, windows, {"ceil_mode": ceil_mode}, data_format, name
    )


@ow.transaction()
def avg_pool1d(
    input: Input,
    kernel: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    paddings: str | int | Sequence[int] = 0,
    *,
    dilations: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    data_format: str = "NCL",
    name: str | None = None,
) -> ow.Variable:
    """Append the mean of each window of sequences.

    Parameters
    ----------
    input : Variable or str, [n, channels, length]
        Or [n, length, channels] with ``data_format="NLC"``.
    kernel, strides, paddings, dilations, ceil_mode, count_include_pad, name
        As in `layers.avg_pool2d`, with one size, or a pair of paddings.
    data_format : str
        "NCL" or "NLC".
    """
    windows = (kernel, strides, paddings, dilations)
    flags = {"ceil_mode": ceil_mode, "count_include_pad": count_include_pad}
    return _append_pool("avg_pool1d", 1, input, windows, flags, data_format, name)


@ow.transaction()
def avg_pool2d(
    input: Input,
    kernel: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    paddings: str | int | Sequence[int] = 0,
    *,
    dilations: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    data_format: str = "NCHW",
    name: str | None = None,
) -> ow.Variable:
    """Append the mean of each window.

    Parameters
    ----------
    input, kernel, strides, paddings, dilations, ceil_mode, data_format, name
        As in `layers.max_pool2d`.
    count_include_pad : bool
        Whether padding counts as zeros. (PyTorch's default is True.)
    """
    windows = (kernel, strides, paddings, dilations)
    flags = {"ceil_mode": ceil_mode, "count_include_pad": count_include_pad}
    return _append_pool("avg_pool2d", 2, input, windows, flags, data_format, name)


@ow.transaction()
def avg_pool3d(
    input: Input,
    kernel: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    paddings: str | int | Sequence[int] = 0,
    *,
    dilations: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> ow.Variable:
    """Append the mean of each window of volumes.

    Parameters
    ----------
    input : Variable or str, [n, channels, depth, height, width]
        Or [n, depth, height, width, channels] with ``data_format="NDHWC"``.
    kernel, strides, paddings, dilations, ceil_mode, count_include_pad, name
        As in `layers.avg_pool2d`, with three sizes, or six paddings.
    data_format : str
        "NCDHW" or "NDHWC".
    """
    windows = (kernel, strides, paddings, dilations)
    flags = {"ceil_mode": ceil_mode, "count_include_pad": count_include_pad}
    return _append_pool("avg_pool3d", 3, input, windows, flags, data_format, name)


@ow.transaction()
def adaptive_avg_pool2d(
    input: Input,
    output_size: int | Sequence[int],
    *,
    data_format: str = "NCHW",
    name: str | None = None,
) -> ow.Variable:
    """Append the mean of each of `output_size` bins, for an input of any size.

    Parameters
    ----------
    input : Variable or str, [n, channels, height, width]
        Or [n, height, width, channels], see `data_format`.
    output_size : int or pair of int, at least 1
        Height and width of the output; 1 gives the mean of each channel.
    data_format : str
        "NCHW" or "NHWC".
    name : str, optional
        The prefix of the layer's variable names.
    """
    return _append_adaptive("adaptive_avg_pool2d", input, output_size, data_format, name)


@ow.transaction()
def adaptive_max_pool2d(
    input: Input,
    output_size: int | Sequence[int],
    *,
    data_format: str = "NCHW",
    name: str | None = None,
) -> ow.Variable:
    """Append the maximum of each of `output_size` bins, for an input of any size.

    Parameters
    ----------
    input : Variable or str, [n, channels, height, width]
        Or [n, height, width, channels], see `data_format`.
    output_size : int or pair of int, at least 1
        Height and width of the output; 1 gives the maximum of each channel.
    data_format : str
        "NCHW" or "NHWC".
    name : str, optional
        The prefix of the layer's variable names.
    """
    return _append_adaptive("adaptive_max_pool2d", input, output_size, data_format, name)


def _append_adaptive(
    who: str, x: object, output_size: object, data_format: object, name: object
) -> ow.Variable:
    images = Images(who, x, data_format)
    attrs = {
        "output_size": checks.check_sizes(who, "output_size", output_size, rank=2, at_least=1),
        "data_format": images.data_format,
    }
    images.shape()
    return append_layer(who, {"x": images.variable}, attrs, name)


def _append_pool(
    who: str,
    rank: int,
    x: object,
    windows: tuple[object, object, object, object],
    flags: Mapping[str, object],
    data_format: object,
    name: object,
) -> ow.Variable:
    kernel, strides, paddings, dilations = windows
    images = Images(who, x, data_format, rank)
    size = images.windows("kernel", kernel)
    steps = size if strides is None else images.windows("strides", strides)
    holes = images.windows("dilations", dilations)
    attrs: dict[str, Any] = {
        "kernel": size,
        "paddings": images.paddings(paddings, size, steps, holes),
        "data_format": images.data_format,
        **{flag: checks.check_bool(who, flag, value) for flag, value in flags.items()},
    }
    if steps != size:
        attrs["strides"] = steps
    if set(holes) != {1}:
        attrs["dilations"] = holes
    images.shape()
    return append_layer(who, {"x": images.variable}, attrs, name)
