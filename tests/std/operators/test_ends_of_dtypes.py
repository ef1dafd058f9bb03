"""Composed functions are accurate at the largest and smallest numbers and at both zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import opwright as ow

HUGE = 3e38
"""A float32 number that overflows when doubled."""
LEAST = 2.0**-149


@pytest.mark.parametrize(
    ("op", "given", "expected"),
    [
        ("asinh", [HUGE, -HUGE], [89.28999, -89.28999]),
        ("acosh", [HUGE, np.inf], [89.28999, np.inf]),
        ("exp2", [127.0, 128.0, -149.0, -151.0], [2.0**127, np.inf, LEAST, 0.0]),
        ("deg2rad", [-0.0, 0.0], [-0.0, 0.0]),
        ("softsign", [HUGE, -np.inf], [1.0, -1.0]),
    ],
)
def test_unary_functions_are_accurate_at_the_limits_of_the_dtype(
    op: str, given: list[float], expected: list[float]
) -> None:
    out = getattr(ow.ops, op)(np.array(given, np.float32))
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    np.testing.assert_array_equal(np.signbit(out), np.signbit(expected))


@pytest.mark.parametrize(
    ("op", "x", "y", "expected"),
    [
        ("hypot", LEAST * 3, LEAST * 4, LEAST * 5),
        ("hypot", 1.8e38, 2.4e38, 3e38),
        ("hypot", 0.0, -0.0, 0.0),
        ("logaddexp2", 0.0, -126.0, 2.0**-126 / np.log(2)),
        ("logaddexp2", -np.inf, -np.inf, -np.inf),
        ("logaddexp", HUGE, HUGE, HUGE),
        ("xlogy", 0.0, 0.0, 0.0),
    ],
)
def test_binary_functions_are_accurate_at_the_limits_of_the_dtype(
    op: str, x: float, y: float, expected: float
) -> None:
    out = getattr(ow.ops, op)(np.float32([x]), np.float32([y]))
    np.testing.assert_allclose(out, [expected], rtol=1e-6)


@pytest.mark.parametrize("library", ["native", "numpy"])
def test_scale_without_a_bias_keeps_the_sign_of_zero(library: str) -> None:
    with ow.context_guard(ow.current_context().with_pins({"scale": library})):
        out: Any = ow.ops.scale(np.array([-0.0, 0.0] * 9, np.float32), scale=3.0)
    np.testing.assert_array_equal(np.signbit(out), [True, False] * 9)
