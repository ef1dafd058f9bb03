"""``opwright.cut`` passes as few bytes as possible from a forward pass to its backward pass."""

from __future__ import annotations

from typing import Any

import numpy as np
from case import Array
from test_cut import RNG, W, both_of, product

from opwright import ops


def test_values_read_only_for_their_shape_are_not_saved() -> None:
    both = both_of(lambda x, w: ops.sum(ops.add(ops.matmul(x, w), 1.0), axis=[1]), w=W)
    backward = both.check({"dy": RNG.normal(size=6)})
    assert both.saved(backward) == {}


def test_feeds_and_parameters_are_not_saved() -> None:
    both = both_of(product, w=W)
    backward = both.check({"dy": RNG.normal(size=(6, 8))})
    (held,) = backward.args
    assert held is both.feeds["x"]


def test_a_result_is_saved_once_and_its_views_are_not() -> None:
    def build(x: Any, w: Any) -> Any:
        h = ops.exp(ops.matmul(x, w))
        flat = ops.reshape(ops.reshape(h, shape=[-1, 4, 2]), shape=[-1])
        return ops.multiply(flat, ops.reshape(h, shape=[-1]))

    both = both_of(build, w=W)
    saved = both.saved(both.check({"dy": RNG.normal(size=48)}))
    assert [array.size for array in saved.values()] == [48]

    both = both_of(lambda x, w: ops.exp(ops.matmul(x, w)), w=W)
    (y,), backward = both.two(**both.feeds)
    assert any(held is y for held in backward.args)


def saved_beside(build: Any) -> dict[str, Array]:
    """Return the values saved for build(x @ w @ v), by name; x @ w @ v is float32 [256, 512]."""
    w, v = (RNG.normal(size=size).astype("float32") for size in ((8, 2048), (2048, 512)))
    both = both_of(lambda x, w, v: build(ops.matmul(ops.matmul(x, w), v)), 256, w=w, v=v)
    seed = RNG.normal(size=(256, 512)).astype("float32")
    return both.saved(both.check({"dy": seed}))


def test_a_value_that_is_quick_to_compute_is_recomputed_from_its_inputs() -> None:
    def build(h: Any) -> Any:
        return ops.tanh(ops.multiply(ops.square(h), ops.relu(h)))

    assert saved_beside(build).keys() == {"tanh_0", "matmul_1"}


def test_the_narrower_side_of_a_cast_is_saved() -> None:
    def build(h: Any) -> Any:
        return ops.sin(ops.cast(ops.cast(h, dtype="float16"), dtype="float32"))

    saved = saved_beside(build)
    assert saved.keys() == {"cast_0"}
    assert saved["cast_0"].dtype == np.float16


def test_feeds_are_passed_in_every_form_of_a_call() -> None:
    both = both_of(product, w=W)
    x, seed = both.feeds["x"], RNG.normal(size=(6, 8))
    expected = both.one(x=x, dy=seed)[1:]
    for forward in (lambda: both.two(x), lambda: both.two(x=x), lambda: both.two({"x": x})):
        _, backward = forward()
        for result, array in zip(backward(seed), expected, strict=True):
            np.testing.assert_array_equal(result, array)


def test_gradients_are_written_to_the_arrays_of_the_caller() -> None:
    both = both_of(product, w=W)
    seed, place = RNG.normal(size=(6, 8)), np.empty((8, 8))
    expected = both.one(**both.feeds, dy=seed)[1:]
    _, backward = both.two(**both.feeds, fetch_as=np.asarray)
    x_grad, w_grad = backward(seed, out=[None, place])
    assert w_grad is place
    np.testing.assert_array_equal(w_grad, expected[1])
    np.testing.assert_array_equal(x_grad, expected[0])
