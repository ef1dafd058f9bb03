"""Rows of normalizations."""

from __future__ import annotations

from typing import Any

import opwright as ow
from opwright_onnx.errors import DeclinedError
from opwright_onnx.translate.model import MIN_OPSET
from opwright_onnx.translate.node import Node
from opwright_onnx.translate.table import Rows
from opwright_onnx.translate.translator import Translator
from opwright_onnx.translate.values import Value
from opwright_onnx.translate.walking import knows_old

ROWS = Rows()


@ROWS.row("BatchNormalization")
@knows_old
def batch_norm(
    t: Translator, n: Node, x: Value, scale: Value, bias: Value, mean: Value, variance: Value
) -> Any:
    if n.opset < MIN_OPSET and not n.attr("is_test"):
        raise DeclinedError("is_test must be 1, got 0")
    if n.attr("training_mode"):
        return _train(t, n, x, scale, bias, mean, variance)
    if n.n_outputs > 1 and any(n.wants(i) for i in range(1, n.n_outputs)):
        raise DeclinedError("the node must have one output if training_mode is 0")
    mean, variance = (t.own(v, scale, bias) for v in (mean, variance))
    for statistic in (mean, variance):
        if isinstance(statistic, ow.Parameter):
            statistic.trainable = False
    return t.op("batch_norm", x, scale, bias, mean, variance, epsilon=n.attr("epsilon"))


def _train(
    t: Translator, n: Node, x: Value, scale: Value, bias: Value, mean: Value, variance: Value
) -> Any:
    axes = [i for i in range(t.rank(x)) if i != 1]
    average = t.op("mean", x, axis=axes)
    spread = t.op("variance", x, axis=axes)
    out = t.op("batch_norm", x, scale, bias, average, spread, epsilon=n.attr("epsilon"))
    share = n.attr("momentum")

    def mix(old: Value, new: Value) -> Value:
        return t.op("add", t.op("multiply", old, share), t.op("multiply", new, 1 - share))

    return out, mix(mean, average), mix(variance, spread)


@ROWS.row("InstanceNormalization")
def instance_norm(t: Translator, n: Node, x: Value, scale: Value, bias: Value) -> Any:
    return t.op("instance_norm", x, scale, bias, epsilon=n.attr("epsilon"))


@ROWS.row("GroupNormalization")
def group_norm(t: Translator, n: Node, x: Value, scale: Value, bias: Value) -> Any:
    if n.opset < 21:
        raise DeclinedError(
            "its opset must be at least 21, since older opsets have one scale per group"
        )
    dtype = t.dtype(x)
    groups = n.attr("num_groups")
    return t.cast(
        t.op("group_norm", x, scale, bias, groups=groups, epsilon=n.attr("epsilon")), dtype
    )


@ROWS.row("LayerNormalization")
def layer_norm(t: Translator, n: Node, x: Value, scale: Value, bias: Value = None) -> Any:
    rank = t.rank(x)
    axis = t.axis(n.attr("axis"), rank)
    if (
        not axis
        or t.rank(scale) != rank - axis
        or (bias is not None and t.rank(bias) != rank - axis)
    ):
        raise DeclinedError("scale and bias must have all normalized axes")
    out, mean, deviation = t.op(
        "layer_norm", x, scale, bias, begin_norm_axis=axis, epsilon=n.attr("epsilon"), outputs=3
    )
    if n.n_outputs == 1:
        return out
    return out, _spread(t, x, mean, axis), _spread(t, x, deviation, axis)


def _spread(t: Translator, x: Value, rows: Value, axis: int) -> Value:
    """Reshape one statistic per row to the rank of `x`, with size 1 along `axis` and later axes."""
    sizes = [t.dim(x, i) for i in range(axis)]
    return t.reshape(rows, [*sizes, *[1] * (t.rank(x) - axis)])


@ROWS.row("RMSNormalization")
def rms_norm(t: Translator, n: Node, x: Value, scale: Value) -> Any:
    axis = t.axis(n.attr("axis"), t.rank(x))
    if not axis or t.rank(scale) != t.rank(x) - axis or t.dtype(x) != t.dtype(scale):
        raise DeclinedError("scale must have all normalized axes and the dtype of x")
    return t.op("rms_norm", x, scale, begin_norm_axis=axis, epsilon=n.attr("epsilon"))


@ROWS.row("MeanVarianceNormalization")
def mean_variance(t: Translator, n: Node, x: Value) -> Any:
    axes = n.attr("axes")
    centered = t.op("subtract", x, t.op("mean", x, axis=axes, keepdims=True))
    spread = t.op("mean", t.op("square", centered), axis=axes, keepdims=True)
    return t.op("divide", centered, t.op("add", t.op("sqrt", spread), 1e-9))
