"""Draws attribute values: inside their declared ranges, at the bounds, and outside."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from opwright.op import INT_MAX, INT_MIN, AttrProto, AttrType, OpDefinition

_FAR: Final = 1e3
"""Divides a range: the value drawn for an open bound is this fraction inside."""

_DRAWN: Final = 3
"""Number of ordinary values to try before the values at the bounds."""


def draw(
    definition: OpDefinition,
    fixed: Mapping[str, Any],
    dtype: str,
    plain: bool,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Return a value for each attribute: the fixed value, the default, or a random value.

    A dtype attribute that selects the kernel gets `dtype`. With `plain`, attributes with a default
    have this default.
    """
    proto = definition.proto
    values: dict[str, Any] = {}
    for attr in proto.attrs:
        if attr.name in fixed:
            values[attr.name] = fixed[attr.name]
        elif attr.name == proto.dispatch_slot:
            values[attr.name] = dtype
        elif attr.required or (not plain and rng.random() < 0.6):
            values[attr.name] = draw_value(attr, rng)
        elif attr.has_default:
            values[attr.name] = attr.default
    return {name: value for name, value in values.items() if value is not None}


def draw_value(attr: AttrProto, rng: np.random.Generator) -> Any:
    """Return a value in the declared range, or a small number if the range is unbounded."""
    if not attr.type.is_list:
        return _draw_element(attr, rng)
    count = int(rng.integers(0, 4)) if attr.default is None else _length(attr)
    return tuple(_draw_element(attr, rng) for _ in range(count))


def _length(attr: AttrProto) -> int:
    """Return the length of a drawn list, which is the length of the default."""
    return max(len(attr.default), 1) if isinstance(attr.default, tuple) else 1


def _draw_element(attr: AttrProto, rng: np.random.Generator) -> Any:
    if attr.allowed:
        return attr.allowed[int(rng.integers(len(attr.allowed)))]
    kind = attr.type.element
    if kind is AttrType.BOOL:
        return bool(rng.random() < 0.5)
    if kind is AttrType.STRING:
        return "text"
    low = -2.0 if attr.min is None else float(attr.min)
    high = max(low, 0.0) + 3.0 if attr.max is None else float(attr.max)
    if attr.min is None and attr.max is not None:
        low = min(low, high - 3.0)
    if kind is AttrType.INT:
        least = math.ceil(low) + (attr.min_exclusive and float(low).is_integer())
        most = math.floor(high) - (attr.max_exclusive and float(high).is_integer())
        most = min(most, least + 6)
        return int(rng.integers(least, max(most, least) + 1))
    high = min(high, low + 6.0)
    return float(low + (high - low) * rng.uniform(0.05, 0.95))


def edges(attr: AttrProto) -> Iterator[tuple[str, Any]]:
    """Yield the values at the bounds of the range, each with a label.

    The values are the bounds, or the nearest numbers inside of them, the allowed values, and both
    values of a bool. Dtypes and blocks are excluded, because other choices follow from them.
    """
    if attr.is_dtype or attr.type.element is AttrType.BLOCK:
        return
    if attr.allowed:
        for value in attr.allowed:
            yield f"= {value!r}", (value,) if attr.type.is_list else value
        return
    if attr.type is AttrType.BOOL:
        for flag in (False, True):
            yield f"= {flag}", flag
        return
    if attr.type.element not in (AttrType.INT, AttrType.FLOAT):
        return
    for label, value in (("at its minimum", _least(attr)), ("at its maximum", _most(attr))):
        if value is not None:
            yield label, (value,) * _length(attr) if attr.type.is_list else value


def _least(attr: AttrProto) -> int | float | None:
    if attr.min is None:
        return None
    if attr.type.element is AttrType.INT:
        return math.floor(attr.min) + 1 if attr.min_exclusive else math.ceil(attr.min)
    # Numbers next to an open bound have reciprocals that overflow; a thousandth is near enough.
    return float(attr.min) + _inner(attr) if attr.min_exclusive else float(attr.min)


def _most(attr: AttrProto) -> int | float | None:
    if attr.max is None:
        return None
    if attr.type.element is AttrType.INT:
        return math.ceil(attr.max) - 1 if attr.max_exclusive else math.floor(attr.max)
    return float(attr.max) - _inner(attr) if attr.max_exclusive else float(attr.max)


def _inner(attr: AttrProto) -> float:
    if attr.min is None or attr.max is None:
        return 1 / _FAR
    return (attr.max - attr.min) / _FAR


def outside(attr: AttrProto) -> Iterator[Any]:
    """Yield values outside of the declared range, and values of another type."""
    if attr.type.element is AttrType.BLOCK:
        return
    wrap = (lambda value: [value]) if attr.type.is_list else (lambda value: value)
    if attr.allowed:
        yield wrap(_foreign(attr))
    elif attr.type.element in (AttrType.INT, AttrType.FLOAT):
        for value in _beyond(attr):
            yield wrap(value)
    yield wrap(_of_other_type(attr))


def _foreign(attr: AttrProto) -> Any:
    """Return a value of the right type that is not allowed."""
    if attr.type.element is AttrType.STRING:
        return "none_of_these"
    if attr.type.element is AttrType.BOOL:
        return next((flag for flag in (False, True) if flag not in attr.allowed), "no")
    return type(attr.allowed[0])(max(attr.allowed) + 1)


def _beyond(attr: AttrProto) -> Iterator[int | float]:
    whole = attr.type.element is AttrType.INT
    for bound, step, exclusive in (
        (attr.min, -1, attr.min_exclusive),
        (attr.max, 1, attr.max_exclusive),
    ):
        if bound is None:
            continue
        if exclusive:
            yield int(bound) if whole else float(bound)
        elif whole:
            yield int(bound) + step
        else:
            yield float(np.nextafter(bound, step * math.inf))
        far = int(bound) + step * 1000 if whole else float(bound) + step * 1000.0
        yield min(max(far, INT_MIN), INT_MAX) if whole else far
    if not whole and (attr.min is not None or attr.max is not None):
        yield math.nan


def _of_other_type(attr: AttrProto) -> Any:
    return 1.5 if attr.type.element is AttrType.STRING else "text"


def unusual(attr: AttrProto) -> Iterator[Any]:
    """Yield values that the declaration allows but authors easily forget.

    The values are the bounds, and small numbers of both signs.
    """
    if attr.is_dtype or attr.type.element is AttrType.BLOCK or attr.allowed:
        return
    for _, value in edges(attr):
        yield value
    if attr.type.element not in (AttrType.INT, AttrType.FLOAT):
        return
    kind = int if attr.type.element is AttrType.INT else float
    for number in (0, 1, -1, 7, -7):
        value = (kind(number),) if attr.type.is_list else kind(number)
        if _is_inside(attr, kind(number)):
            yield value


def _is_inside(attr: AttrProto, number: int | float) -> bool:
    low = attr.min is None or number > attr.min or (number == attr.min and not attr.min_exclusive)
    high = attr.max is None or number < attr.max or (number == attr.max and not attr.max_exclusive)
    return low and high


def others(attr: AttrProto, rng: np.random.Generator) -> Iterator[Any]:
    """Yield values that the declaration allows, ordinary values before values at the bounds."""
    for _ in range(_DRAWN):
        yield draw_value(attr, rng)
    for _, value in edges(attr):
        yield value
    yield from unusual(attr)
