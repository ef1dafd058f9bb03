"""Bools behave as the numbers 0 and 1: a sum is logical or, a product is logical and."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import opwright as ow

X = np.array([True, False, False, True])
Y = np.array([False, True, False, True])
PLACES = np.array([0, 1, 2, 2, 3])
UPDATES = np.array([False, True, False, True, False])

OF_TWO = {
    "fmax": X | Y,
    "fmin": X & Y,
    "heaviside": X | Y,
    "outer": X[:, None] & Y,
    "kron": (X[:, None] & Y).reshape(-1),
}


@pytest.mark.parametrize("op", OF_TWO)
def test_functions_of_two_bools_return_bools(op: str) -> None:
    np.testing.assert_array_equal(getattr(ow.ops, op)(X, Y), OF_TWO[op], strict=True)


def test_bools_have_no_sign_bit() -> None:
    np.testing.assert_array_equal(ow.ops.signbit(X), X & ~X, strict=True)


@pytest.mark.parametrize(
    ("reduction", "expected"),
    [
        ("none", [False, True, True, False]),
        ("add", [True, True, True, True]),
        ("mul", [False, False, False, False]),
        ("max", [True, True, True, True]),
        ("min", [False, False, False, False]),
    ],
)
@pytest.mark.parametrize("library", ["native", "numpy"])
@pytest.mark.parametrize("op", ["scatter", "scatter_nd"])
def test_scatter_combines_bools_as_0_and_1(
    op: str, library: str, reduction: str, expected: list[bool]
) -> None:
    index = PLACES if op == "scatter" else PLACES[:, None]
    with ow.context_guard(ow.current_context().with_pins({op: library})):
        out = getattr(ow.ops, op)(X, index, UPDATES, reduction=reduction)
    np.testing.assert_array_equal(out, expected, strict=True)


@pytest.mark.parametrize(
    ("reduction", "expected"),
    [
        ("add", [False, True, True, False]),
        ("mul", [False, True, False, False]),
        ("max", [False, True, True, False]),
        ("min", [False, True, False, False]),
        ("mean", [False, True, False, False]),
    ],
)
def test_scatter_reduce_can_exclude_the_element_of_x_when_combining_bools(
    reduction: str, expected: list[bool]
) -> None:
    given: dict[str, Any] = {"reduction": reduction, "include_self": False}
    out = ow.ops.scatter_reduce(X, PLACES, UPDATES, **given)
    np.testing.assert_array_equal(out, expected, strict=True)


def test_adding_bools_at_indices_is_logical_or() -> None:
    expected = [True, True, True, True]
    np.testing.assert_array_equal(ow.ops.index_add(X, PLACES, UPDATES), expected, strict=True)
    put = ow.ops.index_put(X, [PLACES], UPDATES, accumulate=True)
    np.testing.assert_array_equal(put, expected, strict=True)


def test_unfold_copies_bools_into_windows() -> None:
    image = np.array([[[[True, False, True], [False, True, True]]]])
    windows = [[[1, 0], [0, 1], [0, 1], [1, 1]]]
    unfolded = ow.ops.unfold(image, kernel=[2, 2])
    np.testing.assert_array_equal(unfolded, np.array(windows, bool), strict=True)


def test_cummax_of_bools_returns_values_and_indices() -> None:
    out, places = ow.ops.cummax(Y, axis=0, returns=["out", "indices"])
    np.testing.assert_array_equal(out, [False, True, True, True], strict=True)
    np.testing.assert_array_equal(places, [0, 1, 1, 3])
