"""Normalizations and softmax."""

from __future__ import annotations

from typing import Any, Final

import torch

from opwright_torch.dtypes import dtype_name, torch_dtype
from opwright_torch.translate import Decline, Rows, Translator
from opwright_torch.translate.translator import Value

ROWS: Final = Rows()


def _in_wide_dtype(t: Translator, x: Value, *others: Value) -> tuple[Value, ...]:
    """Cast all inputs to the dtype of the parameters; it can be wider than the dtype of x."""
    dtypes = {v.dtype for v in others if v is not None}
    wide = dtypes.pop() if len(dtypes) == 1 else x.dtype
    return tuple(v if v is None else t.cast(v, wide) for v in (x, *others))


def _batch_norm(
    t: Translator,
    input: Value,
    weight: Value,
    bias: Value,
    mean: Value,
    variance: Value,
    **attrs: Any,
) -> tuple[Value, ...]:
    """Return out, mean_out, variance_out, saved_mean and saved_inv_std.

    Absent parameters and statistics default to 1 or 0.
    """
    x, *given = _in_wide_dtype(t, input, weight, bias, mean, variance)
    channels = [t.shape(input)[1]]
    filled = [
        t.full(value, channels, x.dtype) if v is None else v
        for v, value in zip(given, (1.0, 0.0, 0.0, 1.0))
    ]
    out, *others = t.op("batch_norm", x, *filled, n=5, **attrs)
    return t.cast(out, input.dtype), *others


def _train_batch_norm(
    t: Translator, momentum: float, eps: float, *inputs: Value
) -> tuple[Value, ...]:
    attrs: dict[str, Any] = {"training": True, "unbiased": True, "momentum": 1.0 - momentum}
    return _batch_norm(t, *inputs, epsilon=eps, **attrs)


@ROWS.row("aten::_native_batch_norm_legit_functional")
def batch_norm_functional(
    t: Translator,
    input: Value,
    weight: Value,
    bias: Value,
    running_mean: Value,
    running_var: Value,
    training: bool,
    momentum: float,
    eps: float,
) -> Value:
    """Apply batch norm, and also return the new running statistics."""
    statistics = (running_mean, running_var)
    if not training:
        return *batch_norm_inference(
            t, input, weight, bias, *statistics, momentum, eps
        ), *statistics
    inputs = (input, weight, bias, *statistics)
    out, mean, variance, *saved = _train_batch_norm(t, momentum, eps, *inputs)
    return _as_promised(t, out, *saved, mean, variance)


@ROWS.row("aten::_native_batch_norm_legit_no_training")
def batch_norm_inference(
    t: Translator,
    input: Value,
    weight: Value,
    bias: Value,
    running_mean: Value,
    running_var: Value,
    momentum: float,
    eps: float,
) -> Value:
    """Apply batch norm with running statistics; saved statistics are empty, as in PyTorch."""
    inputs = (input, weight, bias, running_mean, running_var)
    out, *_ = _batch_norm(t, *inputs, training=False, epsilon=eps)
    empty = t.full(0.0, [0], out.dtype)
    return out, empty, empty


@ROWS.row("aten::_native_batch_norm_legit.no_stats")
def batch_norm_without_statistics(
    t: Translator,
    input: Value,
    weight: Value,
    bias: Value,
    training: bool,
    momentum: float,
    eps: float,
) -> Value:
    """Apply batch norm without running statistics."""
    inputs = (input, weight, bias, None, None)
    out, _, _, *saved = _train_batch_norm(t, momentum, eps, *inputs)
    return _as_promised(t, out, *saved)


def _as_promised(t: Translator, *results: Value) -> tuple[Value, ...]:
    """Cast results to PyTorch's dtypes; the statistics of 16-bit floats are float32."""
    dtypes = [dtype_name(value.dtype) for value in t.meta()]
    return tuple(map(t.cast, results, dtypes))


@ROWS.row("aten::layer_norm")
def layer_norm(
    t: Translator,
    input: Value,
    normalized_shape: Value,
    weight: Value,
    bias: Value,
    eps: float,
    cudnn_enable: bool = True,
) -> Value:
    """Apply layer norm."""
    return native_layer_norm(t, input, normalized_shape, weight, bias, eps)[0]


@ROWS.row("aten::native_layer_norm")
def native_layer_norm(
    t: Translator, input: Value, normalized_shape: Value, weight: Value, bias: Value, eps: float
) -> Value:
    """Apply layer norm, and also return its statistics."""
    x, weight, bias = _in_wide_dtype(t, _as_rows(t, input, normalized_shape), weight, bias)
    begin = len(x.shape) - len(normalized_shape)
    attrs = {"begin_norm_axis": begin, "epsilon": eps}
    out, *statistics = t.op("layer_norm", x, weight, bias, n=3, **attrs)
    shape = [1 if i >= begin else size for i, size in enumerate(t.shape(x))][-len(input.shape) :]
    saved = (t.op("reshape", value, shape=shape) for value in statistics)
    return _as_shaped(t, t.cast(out, input.dtype), input), *saved


def _as_rows(t: Translator, x: Value, normalized_shape: Value) -> Value:
    """Return x with at least one axis before the normalized axes, as opwright operators require."""
    return x if len(x.shape) > len(normalized_shape) else t.op("unsqueeze", x, axis=[0])


def _as_shaped(t: Translator, out: Value, like: Value) -> Value:
    return out if len(out.shape) == len(like.shape) else t.op("squeeze", out, axis=[0])


@ROWS.row("aten::rms_norm")
def rms_norm(
    t: Translator, input: Value, normalized_shape: Value, weight: Value, eps: float | None
) -> Value:
    """Apply RMS norm."""
    x, weight = _in_wide_dtype(t, _as_rows(t, input, normalized_shape), weight)
    begin = len(x.shape) - len(normalized_shape)
    epsilon = torch.finfo(torch_dtype(input.dtype)).eps if eps is None else eps
    out = t.op("rms_norm", x, weight, begin_norm_axis=begin, epsilon=epsilon)
    return _as_shaped(t, t.cast(out, input.dtype), input)


@ROWS.row("aten::group_norm")
def group_norm(
    t: Translator,
    input: Value,
    num_groups: int,
    weight: Value,
    bias: Value,
    eps: float,
    cudnn_enabled: bool = True,
) -> Value:
    """Apply group norm."""
    x, weight, bias = _in_wide_dtype(t, input, weight, bias)
    out = t.op("group_norm", x, weight, bias, groups=num_groups, epsilon=eps)
    return t.cast(out, input.dtype)


@ROWS.row("aten::native_group_norm")
def native_group_norm(
    t: Translator, input: Value, weight: Value, bias: Value, group: int, eps: float, **_: Value
) -> Value:
    """Apply group norm, and also return its statistics."""
    return t.op("group_norm", input, weight, bias, groups=group, epsilon=eps, n=3)


@ROWS.row("aten::instance_norm")
def instance_norm(
    t: Translator,
    input: Value,
    weight: Value,
    bias: Value,
    running_mean: Value,
    running_var: Value,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Value:
    """Apply instance norm."""
    if not use_input_stats:
        inputs = (input, weight, bias, running_mean, running_var)
        return _batch_norm(t, *inputs, training=False, epsilon=eps)[0]
    if running_mean is not None:
        raise Decline("the running statistics of an instance norm change in place")
    x, weight, bias = _in_wide_dtype(t, input, weight, bias)
    return t.cast(t.op("instance_norm", x, weight, bias, epsilon=eps), input.dtype)


def _along(t: Translator, type: str, input: Value, dim: int) -> Value:
    """Append a softmax, computed in PyTorch's result dtype."""
    return t.op(type, t.cast(input, t.dtype()), axis=dim)


@ROWS.row("aten::softmax.int", "aten::_softmax", "aten::special_softmax")
def softmax(t: Translator, input: Value, dim: int, **_: Value) -> Value:
    """Apply softmax."""
    return _along(t, "softmax", input, dim)


@ROWS.row("aten::log_softmax.int", "aten::_log_softmax", "aten::special_log_softmax")
def log_softmax(t: Translator, input: Value, dim: int, **_: Value) -> Value:
    """Return the logarithm of softmax."""
    return _along(t, "log_softmax", input, dim)


@ROWS.row("aten::_weight_norm")
def weight_norm(t: Translator, v: Value, g: Value, dim: int) -> Value:
    """Return `v` with its slices along an axis scaled to the norms `g`."""
    axes = [axis for axis in range(len(v.shape)) if dim == -1 or axis != dim % len(v.shape)]
    norm = t.op("norm", v, axis=axes, keepdims=True) if axes else t.op("abs", v)
    return t.op("multiply", v, t.op("divide", g, norm))
