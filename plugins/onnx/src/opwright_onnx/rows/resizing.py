"""The row of Resize; it uses the operator `resize`, or weight matrices for other variants."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Final

import numpy as np

import opwright as ow
from opwright_onnx.errors import ModelError
from opwright_onnx.rows.taps import Rule, make_weights
from opwright_onnx.translate.node import Node
from opwright_onnx.translate.table import Rows
from opwright_onnx.translate.translator import Translator
from opwright_onnx.translate.values import FLOATS, Value

ROWS = Rows()

MOST_PARTS: Final = 1024
"""The largest denominator of a scale factor for an unknown length: 1.5 is 3 / 2."""


@ROWS.row("Resize")
def resize(
    t: Translator,
    n: Node,
    x: Value,
    roi: Value = None,
    scales: Value = None,
    sizes: Value = None,
) -> Any:
    if n.opset < 11:
        roi, scales, sizes = None, roi, None
    axes = [t.axis(axis, t.rank(x)) for axis in n.attr("axes") or range(t.rank(x))]
    counts, factors = _targets(t, n, x, axes, scales, sizes)
    rule = _read_rule(n)
    changed = [
        (axis, count, factor)
        for axis, count, factor in zip(axes, counts, factors)
        if factor != 1 or rule.coordinates == "tf_crop_and_resize"
    ]
    for item in [item for item in changed if _is_rounded(rule, scales, item[2])]:
        x = _pick(t, x, *item, rule)
        changed.remove(item)
    wide, dtype = t.promote(x, "float64", *FLOATS)
    is_open = any(factor is None for _, _, factor in changed)
    kept = counts[axes.index(0)] if is_open and 0 in axes else None
    if isinstance(kept, ow.Variable):  # the batch size, which the model computed from a shape
        changed = [item for item in changed if item[0] != 0]
    if not changed:
        return _check_batch(t, t.op("assign", x), kept)
    if _is_ours(t, x, changed, rule):
        return _check_batch(t, t.cast(_resize(t, wide, changed, rule), dtype), kept)
    if any(factor is None for _, _, factor in changed):
        t.need(sizes, "sizes")
    bounds = [0.0] * len(axes) + [1.0] * len(axes)
    if roi is not None and 0 not in t.shape(roi):
        bounds = t.need(roi, "roi").reshape(-1).tolist()
    pairs = {axis: (bounds[i], bounds[i + len(axes)]) for i, axis in enumerate(axes)}
    found = _multiply(t, wide, changed, rule, pairs, n.attr("extrapolation_value", 0.0))
    return t.cast(found, dtype)


def _read_rule(n: Node) -> Rule:
    if n.opset < 11:
        return Rule(n.attr("mode"), "asymmetric", "floor", False, False, -0.75)
    return Rule(
        n.attr("mode"),
        n.attr("coordinate_transformation_mode"),
        n.attr("nearest_mode"),
        bool(n.attr("antialias")),
        bool(n.attr("exclude_outside")),
        n.attr("cubic_coeff_a", -0.75),
    )


def _is_ours(t: Translator, x: Value, changed: list[Any], rule: Rule) -> bool:
    """Return whether the operator `resize` computes the same result."""
    if rule.coordinates == "tf_crop_and_resize":
        return False
    if rule.antialias and not (rule.exclude_outside and rule.coordinates == "half_pixel"):
        return False
    if rule.coordinates != "align_corners":
        return True
    shape = t.shape(x)
    is_exact = all(
        factor is None
        or (factor.is_integer() if shape[axis] is None else count == factor * shape[axis])
        for axis, count, factor in changed
    )
    return rule.mode != "nearest" and is_exact


def _resize(t: Translator, x: Value, changed: list[Any], rule: Rule) -> Value:
    """Move the axes to the end, where the operator `resize` works, resize, and move them back."""
    places = [axis for axis, _, _ in changed]
    order = [i for i in range(t.rank(x)) if i not in places] + places
    factors = [factor for _, _, factor in changed]
    found = t.op(
        "resize",
        t.transpose(x, order),
        output_size=[count for _, count, _ in changed],
        scales=[] if None in factors else factors,
        mode=rule.mode,
        coordinates=rule.coordinates,
        rounding=rule.rounding,
        antialias=rule.antialias,
        exclude_outside=rule.exclude_outside and not rule.antialias,
        cubic_coefficient=rule.cubic,
    )
    return t.transpose(found, [order.index(i) for i in range(len(order))])


def _find_ratio(factor: float) -> Fraction | None:
    """Return the ratio of small integers of which `factor` is the rounding to float32, or None."""
    ratio = Fraction(factor).limit_denominator(MOST_PARTS)
    return ratio if ratio and abs(ratio / Fraction(factor) - 1) < 2**-22 else None


def _is_rounded(rule: Rule, scales: Value, factor: float | None) -> bool:
    """Return whether a position depends on the rounding of its division by a float32 scale.

    3 / 0.6 is 5 in float32, but less than 5 in float64, since float32(0.6) is greater than 0.6.
    """
    if scales is None or factor is None or rule.mode != "nearest" or rule.antialias:
        return False
    return rule.coordinates in ("asymmetric", "half_pixel") and math.frexp(factor)[0] != 0.5


def _pick(t: Translator, x: Value, axis: int, count: Any, factor: float, rule: Rule) -> Value:
    """Gather the nearest neighbors along an axis; positions are computed in float32."""
    half = 0.5 if rule.coordinates == "half_pixel" else 0.0
    place = t.cast(t.op("arange", stop=count, dtype="int64"), "float32")
    place = t.op("subtract", t.op("divide", t.op("add", place, half), factor), half)
    if rule.rounding.startswith("round"):
        shift = -0.5 if rule.rounding == "round_prefer_floor" else 0.5
        place = t.op("add", place, shift)
    rounds_up = rule.rounding in ("ceil", "round_prefer_floor")
    place = t.cast(t.op("ceil" if rounds_up else "floor", place), "int64")
    length = t.shape(x)[axis]
    last = t.op("subtract", t.dim(x, axis), 1) if length is None else length - 1
    index = t.op("minimum", t.op("maximum", place, 0), last)
    return t.op("gather", x, index, axis=axis)


def _scaled(t: Translator, x: Value, axis: int, factor: float) -> Any:
    """Return the length of an axis times a factor, rounded down; the length can be unknown."""
    length = t.shape(x)[axis]
    ratio = _find_ratio(factor)
    if length is None and factor == 1:
        return 0  # it is not read
    if length is None and ratio is not None:
        whole = t.times(t.dim(x, axis), ratio.numerator)
        return whole if ratio.denominator == 1 else t.op("floor_divide", whole, ratio.denominator)
    return math.floor(t.known_dim(x, axis, "X") * factor + 1e-6)


def _divide(count: Any, length: int | None) -> float | None:
    return count / length if isinstance(count, int) and length else None


def _check_batch(t: Translator, x: Value, batch: Any) -> Value:
    """Reshape `x` to the batch size that the model computed; a run fails if the sizes differ."""
    if not isinstance(batch, ow.Variable):
        return x
    return t.reshape(x, [batch, *(0 if dim is None else dim for dim in t.shape(x)[1:])])


def _multiply(
    t: Translator, x: Value, changed: list[Any], rule: Rule, pairs: Any, outside: float
) -> Value:
    """Resize one axis at a time by multiplying with a weight matrix."""
    dtype, rank = t.dtype(x), t.rank(x)
    x, inside = t.cast(x, "float64"), np.ones([1] * rank, bool)
    for axis, count, factor in changed:
        length = t.known_dim(x, axis, "X")
        weights, is_inside = make_weights(length, count, factor, rule, pairs[axis])
        order = [i for i in range(rank) if i != axis] + [axis]
        found = t.op("matmul", t.transpose(x, order), np.ascontiguousarray(weights.T))
        x = t.transpose(found, [order.index(i) for i in range(rank)])
        shape = [1] * rank
        shape[axis] = count
        inside = inside & is_inside.reshape(shape)
    if not inside.all():
        x = t.op("where", inside, x, outside)
    return t.cast(x, dtype)


def _targets(
    t: Translator, n: Node, x: Value, axes: list[int], scales: Value, sizes: Value
) -> tuple[list[Any], list[Any]]:
    """Return the new length and scale factor of each axis; factors unknown until a run are None."""
    shape = t.shape(x)
    if scales is not None and 0 not in t.shape(scales):
        factors = [float(f) for f in t.need(scales, "scales").reshape(-1)]
        if not all(math.isfinite(f) and f > 0 for f in factors):
            raise ModelError(f"scales must be greater than 0, got {factors}")
        counts = []
        for axis, factor in zip(axes, factors, strict=True):
            counts.append(_scaled(t, x, axis, factor))
        return counts, factors
    if sizes is None:
        raise ModelError("scales or sizes must be given, got none")
    policy = n.attr("keep_aspect_ratio_policy") or "stretch"
    if policy == "stretch":
        items = t.sizes(sizes)
        if len(items) == len(axes) and any(isinstance(item, ow.Variable) for item in items):
            return items, [_divide(item, shape[axis]) for item, axis in zip(items, axes)]
    counts = t.ints(sizes, "sizes")
    lengths = [t.known_dim(x, axis, "X") for axis in axes]
    factors = [count / length for count, length in zip(counts, lengths, strict=True)]
    if policy != "stretch":
        factor = min(factors) if policy == "not_larger" else max(factors)
        counts = [math.floor(factor * length + 0.5) for length in lengths]
        factors = [factor] * len(factors)
    return counts, factors
