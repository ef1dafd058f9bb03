"""Sparse updates on a GPU are reproducible, update each row once and report invalid rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from calls import call

import opwright as ow
import opwright_nn as nn
from opwright.errors import KernelError
from opwright_nn import layers, optimizer

pytestmark = pytest.mark.cuda_kernels

RNG = np.random.default_rng(2)


def descend(rows: Any, values: Any, param: Any, device: str = "cuda", **attrs: Any) -> Any:
    rate = np.array([0.5], np.float32)
    given = {"param": param, "rows": rows, "values": values, "learning_rate": rate}
    return call("sparse_sgd", given, "param_out", device, **attrs)[0]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("n", [3, 5000])
def test_slices_of_a_row_are_summed_before_the_row_is_rounded(n: int, dtype: str) -> None:
    rows = RNG.integers(0, 40, n)
    values = RNG.integers(-3, 4, (n, 5)).astype(dtype)
    param = RNG.integers(-3, 4, (60, 5)).astype(dtype)
    expected = param.astype(np.float32)
    np.subtract.at(expected, rows, values.astype(np.float32) / 2)
    np.testing.assert_array_equal(descend(rows, values, param), expected.astype(dtype))


def test_lookups_with_different_index_dtypes_match_the_cpu() -> None:
    rows = [np.array([[0, 1], [1, 3]], np.int32), np.array([], np.int64), np.array([3, 0])]
    values = [RNG.standard_normal((*r.shape, 4)).astype(np.float32) for r in rows]
    param = RNG.standard_normal((5, 4)).astype(np.float32)
    got, right = (
        descend(rows, values, param, device, padding_indices=[1, -1, 0])
        for device in ("cuda", "cpu")
    )
    np.testing.assert_allclose(got, right, rtol=1e-6)
    np.testing.assert_array_equal(got[[1, 2, 4]], param[[1, 2, 4]])


@pytest.mark.parametrize("wrong", [-1, 5, 2**40])
def test_a_row_out_of_range_is_reported(wrong: int) -> None:
    values, param = np.ones((2, 4), np.float32), np.ones((5, 4), np.float32)
    with pytest.raises(KernelError, match=rf"sparse_sgd: rows must be in \[0, 5\), got {wrong}"):
        descend(np.array([3, wrong]), values, param)


def train(make: Callable[[], Any], device: str) -> Any:
    """Train a table for some steps with sparse updates of the rows looked up; return the table."""
    with ow.program_guard(ow.Program(seed=3), ow.Program(seed=3)) as (main, startup):
        index = layers.data("index", [None, 2], "int64")
        table = nn.ParamAttr(name="table", initializer=nn.initializer.Normal(0.0, 1.0))
        vectors = layers.embedding(index, size=(40, 6), sparse=True, param_attr=table)
        make().minimize(layers.mean(ow.ops.square(vectors)))
    scope, block = ow.Scope(), main.global_block()
    ow.Network(startup.global_block()).run(scope, device=device)
    step = ow.Network(block).compile(feed=["index"], fetch=[], device=device, scope=scope)
    rng = np.random.default_rng(5)
    for _ in range(4):
        step(index=rng.integers(0, 40, (5, 2)))
    return scope.find_var("table").numpy()


@pytest.mark.parametrize(
    "make",
    [
        lambda: optimizer.SGD(0.1),
        lambda: optimizer.Momentum(0.1, 0.9),
        lambda: optimizer.Adagrad(0.1, initial_squares=0.1),
        lambda: optimizer.Adam(0.1),
    ],
    ids=["sgd", "momentum", "adagrad", "adam"],
)
def test_training_of_tables_matches_the_cpu(make: Callable[[], Any]) -> None:
    np.testing.assert_allclose(train(make, "cuda"), train(make, "cpu"), rtol=1e-5, atol=1e-6)
