"""float16 and bfloat16 on the host: every operator has kernels for both dtypes; they round once."""

from __future__ import annotations

import numpy as np
import pytest
from case import HALVES, Array, Case
from one_operator import Target, graded_slots, run_case
from table import load_cases, sample_cases, standard_types
from test_gradients import compare_with_numpy
from test_reference import compare

import opwright as ow

KERNELS = ow.current_context().kernels
ANY = Target("cpu", None)
"""Runs the kernel that is selected for users."""

WITHOUT = {
    "std.conv2d_pool_grad": "a pass makes it of float32 only, where it is faster than two steps",
    "cdist": "its body computes them in float32 as a whole",
}
"""Operators with host kernels for float32 but not for 16-bit floats, and why."""


WIDE_ALONE = ("fft", "ifft", "rfft", "irfft", "fftn", "ifftn", "triangular_solve")
"""Operators without 16-bit floats."""


def own_dtypes(op_type: str) -> set[str]:
    """Return the host kernel dtypes of all libraries except NumPy."""
    return {
        entry.dtype
        for entry in KERNELS.entries(op_type)
        if entry.device == "cpu" and entry.library != "numpy"
    }


FLOAT_TYPES = [
    op_type
    for op_type in standard_types() + standard_types(plan_only=True)
    if "float32" in own_dtypes(op_type) and op_type not in WIDE_ALONE
]


def cases_of(op_type: str) -> list[Case]:
    """Return the cases of an operator that run in float32 and in other dtypes."""
    found = [case for case in load_cases() if case.op == op_type]
    chosen = [case for case in found if "float32" in case.dtypes and case.dtypes != ("float32",)]
    return sample_cases(chosen)


def has_numbers_of(case: Case, dtype: str) -> bool:
    """Return whether no finite input of a case overflows in the dtype."""
    with np.errstate(over="ignore"):
        wide, narrow = (case.make_inputs(kind) for kind in ("float32", dtype))
    return all(
        np.array_equal(np.isinf(a.astype(np.float64)), np.isinf(b.astype(np.float64)))
        for slot in wide
        for a, b in zip(wide[slot], narrow[slot], strict=True)
    )


TESTED = [op_type for op_type in FLOAT_TYPES if cases_of(op_type)]


@pytest.mark.parametrize("op_type", FLOAT_TYPES)
def test_operators_with_float32_kernels_have_kernels_for_both_16_bit_floats(op_type: str) -> None:
    missing = set(HALVES) - own_dtypes(op_type)
    assert bool(missing) == (op_type in WITHOUT), missing


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("op_type", TESTED)
def test_operator_in_16_bits_matches_the_reference(op_type: str, dtype: str) -> None:
    for case in cases_of(op_type):
        if has_numbers_of(case, dtype):
            arrays = case.make_inputs(dtype)
            compare(case, run_case(case, arrays, ANY), case.compute_expected(arrays))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("op_type", TESTED)
def test_gradient_in_16_bits_matches_float64(op_type: str, dtype: str) -> None:
    for case in cases_of(op_type):
        if case.no_grad or case.no_half_grad or not has_numbers_of(case, dtype):
            continue
        if graded_slots(case, case.make_inputs(dtype)):
            with np.errstate(all="ignore"):
                compare_with_numpy(case, dtype, ANY)


def every_number(dtype: str) -> Array:
    """Return all 16-bit numbers, including denormals, infinities and every NaN."""
    return np.arange(1 << 16, dtype=np.uint16).view(dtype)


def between(numbers: Array) -> Array:
    """Return the numbers, the midpoints between neighbors, and the floats next to midpoints."""
    wide = numbers.astype(np.float32)
    # A midpoint needs one more fraction bit than 16-bit floats have, and rounds to even.
    ties = (wide[:-1].astype(np.float64) + wide[1:].astype(np.float64)) / 2
    middle = ties.astype(np.float32)
    beside = [np.nextafter(middle, np.float32(end)) for end in (-np.inf, np.inf)]
    return np.concatenate([wide, middle, *beside])


def assert_same_numbers(got: Array, expected: Array) -> None:
    """Compare the bits of numbers, including signs of zeros; all NaN count as equal."""
    is_nan = np.isnan(expected.astype(np.float32))
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(np.isnan(got.astype(np.float32)), is_nan)
    np.testing.assert_array_equal(got.view(np.uint16)[~is_nan], expected.view(np.uint16)[~is_nan])


@pytest.mark.parametrize("dtype", HALVES)
def test_every_16_bit_number_is_preserved_by_a_kernel_that_computes_in_float(dtype: str) -> None:
    numbers = every_number(dtype)
    for length in (len(numbers), 31, 1):  # full vectors, and a remainder
        one = np.ones(1, np.float32).astype(dtype)
        assert_same_numbers(ow.ops.multiply(x=numbers[:length], y=one), numbers[:length])


@pytest.mark.parametrize("dtype", HALVES)
def test_floats_round_to_the_nearest_16_bit_number_with_ties_to_even(dtype: str) -> None:
    with np.errstate(all="ignore"):
        floats = between(every_number(dtype))
        expected = floats.astype(dtype)
    assert_same_numbers(ow.ops.cast(x=floats, dtype=dtype), expected)


STATISTICS = {
    "logsumexp": {},
    "norm": {"p": 3.0},
    "std": {"correction": 1.0},
    "variance": {},
}
"""Composites, whose bodies have several steps."""


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("op_type", STATISTICS)
def test_a_statistic_in_16_bits_equals_the_float32_statistic_rounded_once(
    op_type: str, dtype: str
) -> None:
    x = (np.random.default_rng(0).normal(size=(40, 300)) * 30).astype(dtype)  # squares overflow
    function, options = getattr(ow.ops, op_type), {"axis": 1, **STATISTICS[op_type]}

    def weighted(x: Array) -> Array:
        return ow.ops.sum(function(x, **options) * np.linspace(-1, 1, 40).astype(x.dtype))

    wide = x.astype(np.float32)
    with np.errstate(over="ignore"):
        expected = function(wide, **options).astype(dtype)
    np.testing.assert_array_equal(function(x, **options), expected)
    gradient, wide_gradient = (ow.grad(weighted)(v).astype(np.float64) for v in (x, wide))
    rounding = {"float16": 2**-11, "bfloat16": 2**-8}[dtype]
    if op_type != "norm":  # its gradient computes in 16 bits
        bound = 8 * rounding * np.abs(wide_gradient).max()
        np.testing.assert_allclose(gradient, wide_gradient, rtol=0, atol=bound)
