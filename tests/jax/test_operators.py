"""Every operator inside JAX: values, first and second gradients, and batches."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from case import Case
from samples import callable_cases, copies, make_sample
from test_second_gradients import graded_cases, is_once, once_cases

import opwright as ow
from opwright.errors import GradientError

pytestmark = [pytest.mark.usefixtures("x64"), pytest.mark.grid(24)]


def over(cases: list[Case]) -> Any:
    return pytest.mark.parametrize("case", cases, ids=str)


TOLERANCE = 1e-7
"""The tolerance of gradients, relative to the sum of their terms, as float64 differences allow."""


def largest_cases() -> list[Case]:
    """Return the largest case of each operator, if possible with a fixed number of results.

    The number of results is fixed if attributes determine it, or if no output slot is duplicable.
    """
    names = {case.op for case in callable_cases()}
    listed = [cases for op, cases in graded_cases().items() if op in names]
    return [next((c for c in cases if c.attrs or not c.outputs), cases[0]) for cases in listed]


def check_gradient(f: Any, values: list[Any]) -> None:
    """Compare the gradient along a random direction with extrapolated central differences.

    Combining the steps h and h / 2 cancels the error term in h squared. The better of two values
    of h counts, since a kink or the end of a domain can lie within the larger step.
    """
    gradients = jax.grad(f, tuple(range(len(values))))(*values)
    rng = np.random.default_rng(0)
    directions = [rng.standard_normal(value.shape) for value in values]
    terms = [g * d for g, d in zip(gradients, directions, strict=True)]
    run = jax.jit(f)

    def difference(step: float) -> Any:
        pairs = list(zip(values, directions, strict=True))
        ends = [run(*[v + sign * step * d for v, d in pairs]) for sign in (1, -1)]
        return (ends[0] - ends[1]) / (2 * step)

    derivatives = [(4 * difference(h / 2) - difference(h)) / 3 for h in (1e-3, 1e-4)]
    size = 1 + sum(float(abs(term).sum()) for term in terms)
    errors = [abs(float(d - sum(term.sum() for term in terms))) / size for d in derivatives]
    assert min(errors) <= TOLERANCE, f"{errors} of a gradient of size {size}"


@over(callable_cases())
def test_values_under_jit_match_opwright_ops(case: Case) -> None:
    sample = make_sample(case, case.dtypes[-1])
    expected = sample.call(ow.ops, [np.asarray(array) for array in sample.arrays])
    found = jax.jit(sample.run)(*sample.arrays)
    for result, array in zip(found, expected, strict=True):
        assert result.dtype == array.dtype
        np.testing.assert_allclose(
            np.asarray(result, np.float64) if result.dtype.kind == "V" else result,
            np.asarray(array, np.float64) if array.dtype.kind == "V" else array,
            rtol=1e-12, atol=1e-12,
        )  # fmt: skip


@over(largest_cases())
def test_gradients_agree_with_central_differences(case: Case) -> None:
    total, values = make_sample(case, "float64").scalar()
    check_gradient(total, values)


@over([case for case in largest_cases() if not is_once(case)])
def test_forward_mode_equals_reverse_mode(case: Case) -> None:
    total, values = make_sample(case, "float64").scalar()
    rng = np.random.default_rng(1)
    rows = [rng.standard_normal((2, *value.shape)) for value in values]
    places = tuple(range(len(values)))

    def derivative(*directions: Any) -> Any:
        return jax.jvp(total, tuple(values), directions)[1]

    gradients = jax.grad(total, places)(*values)
    terms = [g * row for g, row in zip(gradients, rows, strict=True)]
    expected = [sum(term[i].sum() for term in terms) for i in range(2)]
    size = 1 + sum(float(abs(term).sum()) for term in terms)
    np.testing.assert_allclose(jax.vmap(derivative)(*rows), expected, rtol=0, atol=1e-11 * size)
    along = [row[0] for row in rows]
    np.testing.assert_allclose(jax.jit(derivative)(*along), expected[0], rtol=0, atol=1e-11 * size)


@over([case for case in largest_cases() if not is_once(case)])
def test_second_gradients_agree_with_central_differences(case: Case) -> None:
    total, values = make_sample(case, "float64").scalar()
    places = tuple(range(len(values)))

    def first(*given: Any) -> Any:
        found = jax.grad(total, places)(*given)
        weights = [np.sin(np.arange(g.size) + 1.0).reshape(g.shape) for g in found]
        return sum((g * w).sum() for g, w in zip(found, weights, strict=True))

    check_gradient(first, values)


FLAT = ("norm", "pow_scalar", "sign")
"""Operators whose gradient is 0 in the cases that are differentiable once.

Zeros do not depend on the arguments, so JAX correctly returns zeros again, without an error.
"""


@over([case for case in once_cases() if case.op in FLAT])
def test_the_gradient_of_a_zero_gradient_is_zero(case: Case) -> None:
    total, values = make_sample(case, "float64").scalar()
    first = jax.grad(total)
    assert not np.any(jax.grad(lambda *given: first(*given).sum())(*values))


@over([case for case in once_cases() if case.op not in FLAT])
def test_a_missing_second_gradient_is_reported(case: Case) -> None:
    total, values = make_sample(case, "float64").scalar()
    refusal = rf"{case.op}.* (can be differentiated once|it has no second gradient)"
    with pytest.raises(GradientError, match=refusal):
        jax.grad(lambda *v: sum(g.sum() for g in jax.grad(total, tuple(range(len(v))))(*v)))(
            *values
        )


@over(callable_cases())
def test_vmap_equals_a_loop_over_examples(case: Case) -> None:
    sample = make_sample(case, case.dtypes[-1])
    if not sample.arrays:
        pytest.skip("it has no input")
    rows = [copies(array, 3) for array in sample.arrays]
    found = jax.jit(jax.vmap(sample.run))(*rows)
    expected = [sample.run(*[row[i] for row in rows]) for i in range(3)]
    for result, listed in zip(found, zip(*expected, strict=True), strict=True):
        tolerance = 1e-3 if result.dtype.itemsize < 4 else 1e-6
        np.testing.assert_allclose(
            np.asarray(result, np.float64), np.asarray(np.stack(listed), np.float64),
            rtol=tolerance, atol=tolerance,
        )  # fmt: skip


@over(largest_cases())
def test_vmap_of_a_gradient_equals_a_loop_over_examples(case: Case) -> None:
    total, values = make_sample(case, "float64").scalar()
    gradient = jax.jit(jax.grad(total, tuple(range(len(values)))))
    rows = [copies(value, 2) for value in values]
    for result, *listed in zip(
        jax.vmap(gradient)(*rows), *[gradient(*[row[i] for row in rows]) for i in range(2)],
        strict=True,
    ):  # fmt: skip
        np.testing.assert_allclose(result, np.stack(listed), rtol=1e-6, atol=1e-9)
