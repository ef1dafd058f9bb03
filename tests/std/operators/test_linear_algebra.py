"""Matrices that LAPACK refuses, and triangles that must not be read."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
from opwright.errors import KernelError, ShapeError

SINGULAR = np.ones((2, 3, 3))


def test_a_singular_matrix_has_no_inverse():
    with pytest.raises(KernelError, match="inverse: x must be invertible, got a singular"):
        ow.ops.inverse(SINGULAR)


def test_equations_with_a_singular_matrix_are_refused():
    with pytest.raises(KernelError, match="solve: a must be invertible, got a singular"):
        ow.ops.solve(SINGULAR, np.ones((3, 1)))


def test_a_matrix_with_a_negative_eigenvalue_has_no_cholesky_factor():
    with pytest.raises(KernelError, match="cholesky: x must be positive definite"):
        ow.ops.cholesky(np.diag([1.0, -1.0]))


@pytest.mark.parametrize("upper", [True, False])
def test_triangular_solve_does_not_read_the_other_triangle(upper):
    a = np.array([[2.0, np.nan], [1.0, 4.0]])
    out = ow.ops.triangular_solve(a.T if upper else a, np.array([[2.0], [5.0]]), upper=upper)
    np.testing.assert_array_equal(out, [[0.375], [1.25]] if upper else [[1.0], [1.0]])


def test_irfft_refuses_a_number_of_pairs_that_does_not_match_n():
    with pytest.raises(ShapeError, match=r"irfft: x must have n // 2 \+ 1 = 4 pairs"):
        ow.ops.irfft(np.ones((3, 2)), n=6)


def test_complex_input_without_a_last_axis_of_length_2_is_refused():
    with pytest.raises(ShapeError, match="real and imaginary part in the last axis"):
        ow.ops.fft(np.ones((4, 3)))
