"""Tests sparse optimizers with many rows, several threads, and half precision."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import opwright as ow
from opwright.errors import KernelError

NATIVE, NUMPY = "native", "numpy"
ROWS, SIZE = 5000, 48
STATES = {"sparse_sgd": 0, "sparse_momentum": 1, "sparse_adagrad": 1, "sparse_adam": 2}
POWERS = (np.array([0.9], "f"), np.array([0.99], "f"))


def update(
    op: str,
    library: str,
    threads: int,
    rows: list[np.ndarray],
    dtype: Any = "float32",
    **attrs: Any,
) -> list[np.ndarray]:
    """Return the outputs of one sparse update of a table."""
    ow.set_num_threads(threads)
    rng = np.random.default_rng(4)
    # Every dtype can represent these numbers, so half precision starts with the same values.
    draw = lambda *shape: rng.integers(-64, 64, shape).astype("f") / 32  # noqa: E731
    table = draw(ROWS, SIZE).astype(dtype)
    values = [draw(*index.shape, SIZE).astype(dtype) for index in rows]
    states = [np.abs(draw(ROWS, SIZE)).astype(dtype) for _ in range(STATES[op])]
    scalars = POWERS if op == "sparse_adam" else ()
    attrs |= {"mu": 0.75} if op == "sparse_momentum" else {}
    with ow.context_guard(ow.current_context().with_pins({op: library})):
        rate = np.array([0.25], "f")
        out = getattr(ow.ops, op)(table, rows, values, rate, *states, *scalars, **attrs)
    return list(out) if isinstance(out, tuple | list) else [out]


def some_rows(n: int, seed: int = 0) -> list[np.ndarray]:
    """Return two lookups with repeated rows; the first is half as long as the second."""
    rng = np.random.default_rng(seed)
    second = np.where(rng.random(n) < 0.5, 7, rng.integers(0, ROWS, n))
    return [rng.integers(0, ROWS, (n // 3, 3)), second.astype("int32")]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [0, 1, 300, 9000])
@pytest.mark.parametrize("op", STATES)
def test_row_updates_are_bitwise_identical_to_the_numpy_kernels_for_any_thread_count(
    op: str, n: int, dtype: str
) -> None:
    rows, padding = some_rows(n), [3, -1]
    wanted = update(op, NUMPY, 1, rows, dtype, padding_indices=padding)
    for threads in (1, 2, 3, 8):
        got = update(op, NATIVE, threads, rows, dtype, padding_indices=padding)
        for a, b in zip(got, wanted, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16])
@pytest.mark.parametrize("op", STATES)
def test_half_precision_is_computed_in_single_precision_and_rounded_once(
    op: str, dtype: Any
) -> None:
    rows = some_rows(300)
    wide = update(op, NATIVE, 2, rows, "float32")
    half = update(op, NATIVE, 2, rows, dtype)
    for a, b in zip(half, wide, strict=True):
        np.testing.assert_array_equal(a, b.astype(a.dtype))


@pytest.mark.parametrize("library", [NATIVE, NUMPY])
@pytest.mark.parametrize("wrong", [-1, ROWS])
def test_the_error_for_a_row_out_of_range_names_it(library: str, wrong: int) -> None:
    rows = some_rows(300)
    rows[1][-1] = wrong
    with pytest.raises(KernelError, match=rf"rows must be in \[0, {ROWS}\), got {wrong}"):
        update("sparse_adam", library, 2, rows)
