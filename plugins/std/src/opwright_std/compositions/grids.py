"""grid_sample, composed of gathers and products to compute its second gradient."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

from opwright.errors import GradientError
from opwright.op import BodyContext
from opwright_std.compositions.axes import split_axis
from opwright_std.compositions.expression import Expression, dtype_of, read
from opwright_std.numerics.grid_taps import OUTSIDE, GridAxis, far_share, near_share


class _Tap(NamedTuple):
    """For each position along an axis: a pixel, its weight, and whether it is inside the image."""

    pixel: Expression
    share: Expression
    inside: Expression


def sample_by_taking(b: BodyContext) -> str:
    """Emit grid_sample; taps outside of the image read a valid pixel with weight 0."""
    x, grid = read(b, "x"), read(b, "grid")
    metas = [b.meta(part.name) for part in (x, grid)]
    shapes = [() if meta is None else meta.shape for meta in metas]
    sizes = shapes[0][2:]
    rank = len(sizes)
    if not sizes or -1 in sizes:
        raise GradientError(
            f"{b.type}: the sizes of x must be known, got {list(shapes[0])}; declare them"
        )
    counts = shapes[1][1:-1]
    if 0 in counts:
        attrs = {"shape": [*shapes[0][:2], *counts], "value": 0.0, "dtype": dtype_of(b)}
        return b.emit("fill", {}, attrs=attrs)
    flat = x.then("flatten", start_axis=2, stop_axis=1 + rank)
    places = grid.then("flatten", start_axis=1, stop_axis=rank).then("transpose", axes=[0, 2, 1])
    rules = [b.attr(name) for name in ("mode", "padding_mode", "align_corners", "normalized")]
    axes = [
        _taps(GridAxis(size, *rules), _coordinate(places, rank - 1 - axis))
        for axis, size in enumerate(sizes)
    ]
    parts = [_taken(flat, sizes, taps) for taps in product(*axes)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return split_axis(b, total.name, (*shapes[0][:2], -1), 2, counts)


def _coordinate(places: Expression, number: int) -> Expression:
    return places.then("slice", axes=[1], starts=[number], ends=[number + 1])


def _taken(x: Expression, sizes: tuple[int, ...], taps: tuple[_Tap, ...]) -> Expression:
    """Return the pixels of one tap for all positions, times their weights."""
    place, share, inside = taps[0]
    for size, tap in zip(sizes[1:], taps[1:], strict=True):
        place = place.with_("multiply", place.filled(size)) + tap.pixel
        share, inside = share * tap.share, inside.with_("logical_and", tap.inside)
    taken = x.take(place, 2) * share
    return inside.choose(taken, taken.filled(0.0))


def _taps(axis: GridAxis, coordinate: Expression) -> list[_Tap]:
    place = coordinate
    if axis.normalized and axis.align_corners:
        place = (coordinate + 1.0) * ((axis.size - 1) / 2)
    elif axis.normalized:
        place = ((coordinate + 1.0) * float(axis.size) - 1.0) * 0.5
    place = place.then("isfinite").choose(place, _instead(axis, place))
    if axis.mode == "bicubic":
        first = place.then("floor")
        t = place - first
        shares = (far_share(t + 1.0), near_share(t), near_share(1.0 - t), far_share(2.0 - t))
        return [_tap(axis, _padded(axis, first + float(k)), shares[k + 1]) for k in range(-1, 3)]
    place = _padded(axis, place)
    if axis.mode == "nearest":
        return [_tap(axis, place.then("round"), place.filled(1.0))]
    first = place.then("floor")
    share = place - first
    return [_tap(axis, first, 1.0 - share), _tap(axis, first + 1.0, share)]


def _instead(axis: GridAxis, place: Expression) -> Expression:
    """Replace positions that are NaN or infinite."""
    if axis.padding_mode == "zeros":
        return place.filled(-OUTSIDE)
    zeros = place.filled(0.0)
    if axis.padding_mode == "reflection":
        return zeros
    held = place.then("clip", min=-OUTSIDE, max=axis.size + OUTSIDE)
    return place.then("isnan").choose(zeros, held)


def _padded(axis: GridAxis, place: Expression) -> Expression:
    if axis.padding_mode == "zeros":
        return place
    if axis.padding_mode == "reflection":
        low, high = axis.ends()
        span = high - low
        if span <= 0:
            return place.filled(0.0)
        beyond = (place - low).then("abs")
        rest = beyond - (beyond * (0.5 / span)).then("floor") * (2 * span)
        place = low + span - (rest - span).then("abs")
    return place.then("clip", min=0.0, max=float(axis.size - 1))


def _tap(axis: GridAxis, index: Expression, share: Expression) -> _Tap:
    inside = index.compare("greater_equal", 0.0).with_(
        "logical_and", index.compare("less_equal", float(axis.size - 1))
    )
    whole = inside.choose(index, index.filled(0.0)).then("cast", dtype="int64")
    return _Tap(whole, share, inside)
