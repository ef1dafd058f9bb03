"""Normalizations and softmax, composed of simpler operators to compute second gradients."""

from __future__ import annotations

from collections.abc import Sequence

from opwright.op import BodyContext, Composition, by_differentiating
from opwright_std.compositions.expression import Expression, rank_of, read, read_wide, rounded_to


def _softmax(b: BodyContext) -> None:
    out, grad = read(b, "out"), read(b, "out_grad")
    inner = grad - (grad * out).reduce("sum", _axes(b, "out"))
    b.emit("multiply", {"x": inner.name, "y": out.name}, {"out": b.outputs("x_grad")})


def _log_softmax(b: BodyContext) -> None:
    out, grad = read(b, "out"), read(b, "out_grad")
    share = out.then("exp") * grad.reduce("sum", _axes(b, "out"))
    b.emit("subtract", {"x": grad.name, "y": share.name}, {"out": b.outputs("x_grad")})


def _axes(b: BodyContext, slot: str) -> list[int]:
    return [b.attr("axis")] if rank_of(b, slot) else []


def _standardize(x: Expression, axes: Sequence[int], epsilon: float) -> Expression:
    deviation = x - x.reduce("mean", axes)
    # The mean of equal elements is rounded; the mean of the differences is almost exact.
    deviation = deviation - deviation.reduce("mean", axes)
    variance = deviation.then("square").reduce("mean", axes)
    return deviation * (variance + epsilon).then("rsqrt")


def _stretch(b: BodyContext, normal: Expression, shape: list[int] | None) -> str:
    """Multiply by scale and add bias, reshaped to align with x if a shape is given.

    Operators with 16-bit floats compute in float32; the result has the dtype of x.
    """
    for slot, op_type in (("scale", "multiply"), ("bias", "add")):
        if slot in b.proto.input_slots and b.has_input(slot):
            factor = read_wide(b, slot)
            if shape is not None:
                factor = factor.then("reshape", shape=shape)
            normal = normal.with_(op_type, factor)
    return rounded_to(b, normal).name


def _rows_of(b: BodyContext) -> list[int]:
    rank = rank_of(b, "x")
    return list(range(b.attr("begin_norm_axis") % rank, rank))


@by_differentiating
def layer_norm(b: BodyContext) -> str:
    return _stretch(b, _standardize(read_wide(b, "x"), _rows_of(b), b.attr("epsilon")), None)


@by_differentiating
def rms_norm(b: BodyContext) -> str:
    x = read_wide(b, "x")
    size = x.then("square").reduce("mean", _rows_of(b)) + b.attr("epsilon")
    return _stretch(b, x * size.then("rsqrt"), None)


def _channel_shape(b: BodyContext) -> list[int]:
    return [1, -1] + [1] * (rank_of(b, "x") - 2)


@by_differentiating
def instance_norm(b: BodyContext) -> str:
    axes = list(range(2, rank_of(b, "x")))
    # If x is [n, channels], each group is one element; an empty list would reduce all axes.
    x = read_wide(b, "x")
    normal = _standardize(x, axes, b.attr("epsilon")) if axes else x - x
    return _stretch(b, normal, _channel_shape(b))


@by_differentiating
def group_norm(b: BodyContext) -> str:
    x = read_wide(b, "x")
    grouped = x.then("reshape", shape=[0, b.attr("groups"), -1])
    normal = _standardize(grouped, [2], b.attr("epsilon")).like(x)
    return _stretch(b, normal, _channel_shape(b))


def _batch_norm(b: BodyContext) -> str:
    x, shape = read_wide(b, "x"), _channel_shape(b)
    if b.attr("training"):
        axes = [0, *range(2, rank_of(b, "x"))]
        return _stretch(b, _standardize(x, axes, b.attr("epsilon")), shape)
    mean, variance = (read_wide(b, s).then("reshape", shape=shape) for s in ("mean", "variance"))
    return _stretch(b, (x - mean) * (variance + b.attr("epsilon")).then("rsqrt"), shape)


SOFTMAX = Composition(_softmax)
LOG_SOFTMAX = Composition(_log_softmax)
BATCH_NORM = by_differentiating(_batch_norm, reads=["mean", "variance"])
