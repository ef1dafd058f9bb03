"""Adapters for numerical differentiation and integration."""

from __future__ import annotations

from typing import Any, Final

from .arguments import (
    Adapter,
    axes_of,
    axis_of,
    cast,
    dtype_of,
    floating,
    in_float32,
    is_number,
    ops,
    part,
    promoted,
    rank_of,
    shape_of,
    whole,
)


def diff(x: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    given = {"prepend": prepend, "append": append}
    given = {name: value for name, value in given.items() if value is not None}
    return ops.diff(x, n=n, axis=dim, **given) if n else ops.assign(x)


def trapezoid(y: Any, x: Any = None, *, dx: Any = 1.0, dim: int = -1) -> Any:
    total = ops.sum(whole(areas(y, x, dx, dim)), axis=[axis_of(y, dim)])
    return ops.scale(floating(total), scale=0.5)


def cumulative_trapezoid(y: Any, x: Any = None, *, dx: Any = 1.0, dim: int = -1) -> Any:
    totals = ops.cumsum(whole(areas(y, x, dx, dim)), axis=axis_of(y, dim))
    return ops.scale(floating(totals), scale=0.5)


def areas(y: Any, x: Any, dx: Any, dim: int) -> Any:
    """Return twice the areas of trapezoids; integers keep their dtype, as in PyTorch."""
    axis = axis_of(y, dim)
    n = shape_of(y)[axis]
    if n == 0:
        return floating(y)
    sums = ops.add(part(y, axis, 1, n), part(y, axis, 0, n - 1))
    if x is None:
        return ops.scale(floating(sums), scale=float(dx))
    if rank_of(x) == 1 and rank_of(y) > 1:
        x = ops.reshape(x, shape=[-1 if i == axis else 1 for i in range(rank_of(y))])
    elif rank_of(x) < rank_of(y):
        x = ops.reshape(x, shape=[1] * (rank_of(y) - rank_of(x)) + shape_of(x))
    length = shape_of(x)[axis]
    widths = ops.subtract(part(x, axis, 1, length), part(x, axis, 0, length - 1))
    return ops.multiply(*promoted(sums, widths))


def gradient(x: Any, *, spacing: Any = None, dim: Any = None, edge_order: int = 1) -> list[Any]:
    """Return numerical derivatives: central differences, and one-sided differences at the ends."""
    axes = list(range(rank_of(x))) if dim is None else [axis_of(x, a) for a in axes_of(dim)]
    x = floating(x)
    listed = [spacing] * len(axes) if spacing is None or is_number(spacing) else list(spacing)
    return [_difference(x, axis, space, edge_order) for axis, space in zip(axes, listed)]


def _difference(x: Any, axis: int, space: Any, edge_order: int) -> Any:
    n = shape_of(x)[axis]
    if space is None or is_number(space):
        places = ops.scale(ops.arange(stop=float(n), dtype=dtype_of(x)), scale=float(space or 1))
    else:
        places = cast(space, dtype_of(x))
    places = ops.reshape(places, shape=[-1, *(1 for _ in range(rank_of(x) - 1 - axis))])
    steps, rises = (
        ops.subtract(part(v, a, 1, n), part(v, a, 0, n - 1)) for v, a in ((places, 0), (x, axis))
    )
    quotients = ops.divide(rises, steps)
    before, after = (part(quotients, axis, *ends) for ends in ((0, n - 2), (1, n - 1)))
    h, k = (part(steps, 0, *ends) for ends in ((0, n - 2), (1, n - 1)))
    weighed = ops.add(ops.multiply(before, k), ops.multiply(after, h))
    inner = ops.divide(weighed, ops.add(h, k))
    first, last = part(quotients, axis, 0, 1), part(quotients, axis, n - 2, n - 1)
    if edge_order == 2:
        # Extrapolate linearly at both ends.
        first = ops.subtract(ops.scale(first, scale=2.0), part(inner, axis, 0, 1))
        last = ops.subtract(ops.scale(last, scale=2.0), part(inner, axis, n - 3, n - 2))
    return ops.concat([first, inner, last], axis=axis)


ADAPTERS: Final[dict[str, Adapter]] = {
    "cumulative_trapezoid": in_float32(cumulative_trapezoid),
    "diff": diff,
    "gradient": in_float32(gradient),
    "trapezoid": in_float32(trapezoid),
    "trapz": in_float32(trapezoid),
}
