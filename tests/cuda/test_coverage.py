"""Every opwright-std operator has a CUDA kernel per dtype or a stated reason; all kernels run."""

from __future__ import annotations

import re

import numpy as np
import pytest
from coverage_page import PAGE, missing, render
from one_operator import skip_without_cudnn
from samples import (
    NARROW,
    Sample,
    case_of,
    dispatch_dtype,
    expected,
    make_call,
    metas_of,
    numpy_dtype,
    one_of_each,
    run_network,
    samples,
    standard_kernels,
)

import opwright as ow
from every_case import EVERY
from opwright_cuda.not_there import NOT_THERE
from opwright_cuda.options import ALLOW_TF32

SAMPLES = samples() if EVERY else one_of_each()
"""All dtypes, or one dtype per kernel, since the operator tests also run kernels in all dtypes."""
TF32 = "cudnn_tf32"
"""The library whose kernels round their operands to TF32 if this is allowed."""
STEPS = tuple(f"{kind}{grad}" for kind in ("lstm", "gru", "rnn") for grad in ("", "_grad"))
"""Operators that round the operands of products in each step, but not states and cells."""


def test_every_standard_operator_has_a_kernel_in_every_dtype_or_a_dated_reason() -> None:
    assert {op: dtypes for op, dtypes in missing().items() if op not in NOT_THERE} == {}


@pytest.mark.parametrize("op_type", NOT_THERE)
def test_every_reason_has_a_date_and_refers_to_a_missing_kernel(op_type: str) -> None:
    assert op_type in standard_kernels()
    assert op_type in missing()
    assert re.search(r" \(\d{4}-\d\d-\d\d\)$", NOT_THERE[op_type])


def test_the_table_in_the_documentation_is_up_to_date() -> None:
    assert PAGE.read_text() == render(), "python tests/cuda/coverage_page.py writes it"


@pytest.mark.cuda_kernels
@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_every_kernel_matches_numpy_in_every_dtype(sample: Sample) -> None:
    if sample.library.startswith("cudnn"):
        skip_without_cudnn()
    called = make_call(sample.op_type, sample.dtype)
    assert dispatch_dtype(sample, called) == sample.dtype
    options = {ALLOW_TF32: sample.library == TF32}
    with ow.context_guard(ow.current_context().with_options(options)):
        outputs = run_network(sample, called)
    wanted = expected(sample, called)
    metas = metas_of(sample, called)
    for slot, listed in outputs.items():
        for got, right, meta in zip(listed, wanted[slot], metas[slot], strict=True):
            assert (got.dtype.name, got.shape) == (meta.dtype, right.shape)
            compare(sample, slot, got, right)


def compare(sample: Sample, slot: str, got: np.ndarray, right: np.ndarray) -> None:
    if right.dtype.kind != "f":
        np.testing.assert_array_equal(got, right, err_msg=f"{sample}: {slot}")
        return
    case = case_of(sample.op_type)
    if got.dtype.name in NARROW:
        # Tolerates one rounding of values computed in float32, even if it crosses a power of 2.
        eps = 2.0**-10 if got.dtype.name == "float16" else 2.0**-7
        relative = eps * (2 if sample.op_type in STEPS else 1)
        right = right.astype(numpy_dtype(got.dtype.name))
    elif sample.library == TF32:
        relative = 2.0**-10
    else:
        relative = 4 * case.tolerance(right.dtype)[0]
    finite = np.abs(right.astype(np.float64))[np.isfinite(right.astype(np.float64))]
    size = float(np.max(finite, initial=0.0))
    np.testing.assert_allclose(
        got.astype(np.float64),
        right.astype(np.float64),
        rtol=relative,
        atol=relative * min(size, max(1.0, case.magnitude)),
        err_msg=f"{sample}: {slot}",
    )
