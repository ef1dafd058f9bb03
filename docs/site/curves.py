"""Plots of element-wise functions and their derivatives, drawn from the reference kernels."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import opwright
from opwright import Context, context_guard
from opwright.errors import OpwrightError
from opwright.op import OpProto

Array = npt.NDArray[Any]
Function = Callable[[Array], Array]

REFERENCE: Final = "numpy"
"""The library whose kernels define the meaning of an operator."""

INTERVAL: Final = 4.0
_N_POINTS: Final = 241  # odd, so 0 is included, where many functions have a kink
_STEP: Final = 1e-6
_BEND: Final = 1e-3
"""If the one-sided differences differ by more than this, the derivative is undefined."""

_SIZE: Final = (420, 260)
_MOST: Final = 4.0
"""Values of greater magnitude are outside of the plot."""

_JUMP: Final = 0.5
"""A line is interrupted between neighboring points that differ by more than this."""


def draw_operator(proto: OpProto, context: Context) -> str:
    """Return the plot of an operator as one block of HTML, or '' if it is not element-wise.

    Attributes have their defaults, so operators with required attributes are not plotted.
    """
    function = find_function(proto, context)
    if function is None:
        return ""
    x = np.linspace(-INTERVAL, INTERVAL, _N_POINTS)
    with np.errstate(all="ignore"):
        values, derivatives = function(x), estimate_derivatives(function, x)
    shown = f"[−{INTERVAL:g}, {INTERVAL:g}]"
    return (
        f'<figure class="curve">\n{_draw(x, values, derivatives)}'
        f"<figcaption><code>{proto.type}</code> on {shown}, and its derivative (dashed), from the "
        "reference kernel in float64.</figcaption>\n</figure>"
    )


def find_function(proto: OpProto, context: Context) -> Function | None:
    """Return the function that an operator applies to each element, or None if there is none."""
    required = [slot for slot in proto.inputs if not slot.optional]
    if len(required) != 1 or required[0].duplicable or len(proto.outputs) != 1:
        return None
    if any(attr.required for attr in proto.attrs):
        return None
    if REFERENCE not in context.kernels.libraries_of(proto.type):
        return None
    pinned = context.with_pins({proto.type: REFERENCE})

    def function(x: Array) -> Array:
        with context_guard(pinned):
            return np.asarray(_look_up(proto.type)(x))

    return function if _is_element_wise(function) else None


def _look_up(op_type: str) -> Callable[..., Any]:
    value: Any = opwright.ops
    for part in op_type.split("."):
        value = getattr(value, part)
    found: Callable[..., Any] = value
    return found


def _is_element_wise(function: Function) -> bool:
    """Return whether each element of the result depends only on the corresponding input element.

    Also return False for constants and identities, which do not need a plot.
    """
    x = np.linspace(-1.9, 1.7, 12).reshape(2, 1, 6)
    try:
        with np.errstate(all="ignore"):
            whole = function(x)
            parts = [function(element.reshape(1)) for element in x.ravel()]
    except OpwrightError:
        return False
    if whole.shape != x.shape or whole.dtype != x.dtype or np.array_equal(whole, x):
        return False
    values = whole.ravel()
    same = np.array_equal(values, np.concatenate(parts), equal_nan=True)
    return same and np.unique(values).size > 1


def estimate_derivatives(function: Function, x: Array) -> Array:
    """Return the derivative by finite differences, with NaN if the one-sided differences differ."""
    middle = function(x)
    right = (function(x + _STEP) - middle) / _STEP
    left = (middle - function(x - _STEP)) / _STEP
    derivatives = (left + right) / 2
    derivatives[~(np.abs(right - left) <= _BEND * (1 + np.abs(derivatives)))] = np.nan
    return derivatives


def _draw(x: Array, values: Array, derivatives: Array) -> str:
    width, height = _SIZE
    both = np.concatenate([values, derivatives])
    finite = both[np.isfinite(both)]
    low = float(np.clip(finite.min(), -_MOST, -0.5))
    high = float(np.clip(finite.max(), 0.5, _MOST))
    pad = 0.08 * (high - low)
    low, high = low - pad, high + pad

    def at(place: float, value: float) -> tuple[float, float]:
        right = (place + INTERVAL) / (2 * INTERVAL) * width
        return right, (high - value) / (high - low) * height

    (_, zero_y), (zero_x, _) = at(0, 0), at(0, 0)
    marks = "".join(_mark(*at(place, 0), f"{place:g}") for place in (-3, -2, -1, 1, 2, 3))
    marks += "".join(
        _mark(*at(0, value), f"{value:g}") for value in (-3, -2, -1, 1, 2, 3) if low < value < high
    )
    lines = "".join(
        f'<path class="{name}" d="{_path(x, data, at, low, high)}"/>\n'
        for name, data in (("derivative", derivatives), ("value", values))
    )
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        'aria-label="the function and its derivative">\n'
        f'<path class="axis" d="M0 {zero_y:.1f}H{width}M{zero_x:.1f} 0V{height}"/>\n'
        f"{marks}\n{lines}</svg>\n"
    )


def _mark(x: float, y: float, text: str) -> str:
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="1.5"/>'
        f'<text x="{x + 4:.1f}" y="{y + 13:.1f}">{text.replace("-", "−")}</text>'
    )


def _path(
    x: Array,
    data: Array,
    at: Callable[[float, float], tuple[float, float]],
    low: float,
    high: float,
) -> str:
    """Return lines through the points, interrupted at jumps and at values that are not shown."""
    is_inside = np.isfinite(data) & (data >= low) & (data <= high)
    with np.errstate(invalid="ignore"):
        jumps = np.abs(np.diff(data, prepend=data[:1])) > _JUMP
    part_of = np.cumsum(jumps)
    parts = []
    for (inside, _), group in itertools.groupby(
        range(len(x)), lambda index: (bool(is_inside[index]), int(part_of[index]))
    ):
        if inside:
            points = [at(float(x[index]), float(data[index])) for index in group]
            parts.append("M" + "L".join(f"{right:.1f} {down:.1f}" for right, down in points))
    return "".join(parts)
