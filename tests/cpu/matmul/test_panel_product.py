"""Matrix products whose constant weight is packed into panels."""

from __future__ import annotations

import numpy as np
import pytest
from thread_counts import thread_counts

import opwright as ow

ACTIVATIONS = {
    "": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "softmax": lambda x: np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True),
}
# (rows, summed terms, columns) with complete and partial tiles, panels and blocks; kernels refuse
# some sizes.
SIZES = [
    (1, 700, 200),
    (1, 384, 1152),
    (5, 1300, 104),
    (6, 400, 384),
    (7, 1024, 130),
    (128, 530, 250),
    (133, 64, 2100),
    (300, 2048, 65),
    (512, 256, 528),
    (513, 256, 528),
]


n_threads = thread_counts(1, 2, 3, 4, 7)


def multiply(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, activation: str
) -> np.ndarray:
    """Return the results of a network whose weight and bias are variables of a scope."""
    block, scope = ow.Program().global_block(), ow.Scope()
    inputs = {"x": block.create_var("x", x.shape, "float32")}
    for name, array in (("weight", weight), ("bias", bias)):
        if array is not None:
            inputs[name] = block.create_var(name, array.shape, "float32", persistable=True)
            scope.var(name).set(array)
    [out] = block.append_op("fc", inputs, attrs={"activation": activation}).output("out")
    network = ow.Network(block)
    run = network.compile(feed=["x"], fetch=[out], scope=scope)
    first = np.array(run(x=x)[0])
    scope.find_var("weight").set(2 * weight)  # it is repacked
    np.testing.assert_array_equal(run(x=x / 2)[0], first)
    return first


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
def test_products_match_float64(size: tuple[int, int, int], n_threads: int) -> None:
    rows, terms, columns = size
    rng = np.random.default_rng(rows + columns)
    x = rng.standard_normal((rows, terms)).astype("float32")
    weight = rng.standard_normal((terms, columns)).astype("float32")
    bias = rng.standard_normal(columns).astype("float32")
    activation = list(ACTIVATIONS)[(rows + n_threads) % len(ACTIVATIONS)]
    plain = x.astype("float64") @ (weight / 64)
    for added in (bias, None):
        got = multiply(x, weight / 64, added, activation)
        wanted = ACTIVATIONS[activation](plain if added is None else plain + added)
        scale = float(np.abs(plain).max())
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=2e-6 * scale)


def test_nan_and_infinities_affect_only_their_row_and_column() -> None:
    x, weight = np.ones((4, 600), "float32"), np.ones((600, 220), "float32")
    x[1, 3], weight[5, 209] = np.nan, np.inf
    out = multiply(x, weight, None, "relu")
    assert np.isnan(out[1]).all()
    assert np.isinf(out[[0, 2, 3], 209]).all()
    np.testing.assert_array_equal(np.delete(np.delete(out, 1, 0), 209, 1), 600)


def test_products_are_bitwise_identical_for_any_number_of_threads() -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((40, 900)).astype("float32")
    weight = rng.standard_normal((900, 400)).astype("float32")
    before, results = ow.get_num_threads(), []
    for count in (1, 2, 3, 8):
        ow.set_num_threads(count)
        results.append(multiply(x, weight, None, "tanh"))
    ow.set_num_threads(before)
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])
