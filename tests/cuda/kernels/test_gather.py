"""Lookups on a GPU report invalid positions, and their gradients are reproducible sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from calls import call

from opwright.errors import KernelError
from opwright.op import dtype_to_numpy

pytestmark = [pytest.mark.cuda_kernels, pytest.mark.grid(3)]

RNG = np.random.default_rng(5)


def whole(shape: tuple[int, ...], dtype: str = "float32") -> Any:
    """Return small integers, whose sums are exact in any order."""
    return RNG.integers(-4, 5, shape).astype(dtype_to_numpy(dtype))


@pytest.mark.parametrize("dtype", ["bool", "bfloat16", "float32", "int64"])
@pytest.mark.parametrize("size", [1, 3, 16])
def test_slices_of_any_width_are_gathered(size: int, dtype: str) -> None:
    x = whole((3, 50, size), dtype)
    index = RNG.integers(-50, 50, (4, 7))
    (out,) = call("gather", {"x": x, "index": index}, axis=1)
    np.testing.assert_array_equal(out, np.take(x, index, 1))


@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
@pytest.mark.parametrize(("value", "least"), [(5, -5), (-6, -5)])
def test_a_position_out_of_range_is_reported(value: int, least: int, index_dtype: str) -> None:
    index = np.array([0, value, 1], index_dtype)
    x = whole((5, 3))
    grads = whole((3, 3))
    bounds = rf"gather: index must be in \[{least}, 5\), got {value}"
    with pytest.raises(KernelError, match=bounds):
        call("gather", {"x": x, "index": index})
    with pytest.raises(KernelError, match=bounds):
        call("gather_grad", {"x": x, "index": index, "out_grad": grads}, "x_grad")
    bounds = rf"embedding: index must be in \[0, 5\), got {value}"
    with pytest.raises(KernelError, match=bounds):
        call("embedding", {"weight": x, "index": index})
    given = {"weight": x, "index": index, "out_grad": grads}
    with pytest.raises(KernelError, match=bounds):
        call("embedding_grad", given, "weight_grad")


def test_an_error_is_reported_once_and_the_device_stays_usable() -> None:
    x = whole((5, 3))
    with pytest.raises(KernelError, match="got 9"):
        call("gather", {"x": x, "index": np.array([9])})
    np.testing.assert_array_equal(call("gather", {"x": x, "index": np.array([4])})[0], x[4:])


@pytest.mark.parametrize("value", [-1, 3])
def test_a_class_id_out_of_range_is_reported(value: int) -> None:
    with pytest.raises(KernelError, match=rf"one_hot: x must be in \[0, 3\), got {value}"):
        call("one_hot", {"x": np.array([0, value, 2])}, depth=3)


@pytest.mark.parametrize("value", [-1, 12, 2**31 - 1, -(2**31)])
def test_a_pooling_index_outside_of_the_image_is_reported(value: int) -> None:
    index = np.array([0, value], np.int32).reshape(1, 1, 1, 2)
    grads = np.ones(index.shape, np.float32)
    inputs = {"x": np.ones((1, 1, 3, 4), np.float32), "index": index, "out_grad": grads}
    bounds = rf"max_pool2d_grad: index must be in \[0, 12\), got {value}"
    with pytest.raises(KernelError, match=bounds):
        call("max_pool2d_grad", inputs, "x_grad", kernel=[3, 2])


def add_up(index: Any, grads: Any, shape: tuple[int, ...], axis: int = 0) -> Any:
    out = np.zeros(shape, np.float64)
    moved, given = np.moveaxis(out, axis, 0), np.moveaxis(grads.astype(np.float64), axis, 0)
    np.add.at(moved, index, given)
    return out


POSITIONS = {
    "few": (RNG.integers(-9, 9, 40), 9),
    "two-looks": (RNG.integers(-9, 9, 1500), 9),
    "listed": (RNG.integers(-5000, 5000, 3000), 5000),
    "hot": (np.where(RNG.random(3000) < 0.6, 17, RNG.integers(0, 5000, 3000)), 5000),
    "all-one": (np.full(2500, -1), 5000),
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("case", POSITIONS)
def test_the_slices_of_each_position_are_summed(case: str, dtype: str) -> None:
    index, count = POSITIONS[case]
    for size in (1, 5):
        x, grads = whole((count, size), dtype), whole((len(index), size), dtype)
        given = {"x": x, "index": index, "out_grad": grads}
        (grad,) = call("gather_grad", given, "x_grad")
        expected = add_up(index, grads, x.shape).astype(np.float32).astype(grad.dtype)
        np.testing.assert_array_equal(grad, expected)


@pytest.mark.parametrize("shape", [(2, 4, 300), (300, 4), (3, 6000)], ids=str)
def test_slices_along_any_axis_are_summed(shape: tuple[int, ...]) -> None:
    index = RNG.integers(-shape[1], shape[1], 60)
    x, grads = whole(shape), whole((shape[0], 60, *shape[2:]))
    given = {"x": x, "index": index, "out_grad": grads}
    (grad,) = call("gather_grad", given, "x_grad", axis=1)
    np.testing.assert_array_equal(grad, add_up(index, grads, shape, 1))


def test_sums_of_floats_are_bitwise_identical_in_all_runs() -> None:
    for given, count in (POSITIONS["hot"], POSITIONS["few"]):
        index = given % count
        grads = RNG.standard_normal((len(index), 3)).astype(np.float32)
        inputs = {"weight": whole((count, 3)), "index": index, "out_grad": grads}
        runs = []
        for order in ("ascending", "descending", "random"):
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("OPWRIGHT_EMULATOR_ORDER", order)
                runs += call("embedding_grad", inputs, "weight_grad")
        assert len({run.tobytes() for run in runs}) == 1
        exact = add_up(index, grads, (count, 3))
        np.testing.assert_allclose(runs[0], exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("count", [9, 5000])
def test_padding_and_its_gradient_are_zero(count: int) -> None:
    index = np.tile([3, 0, 3, 5], 500).astype(np.int32)
    weight, grads = whole((count, 4)) + 10, whole((2000, 4))
    (out,) = call("embedding", {"weight": weight, "index": index}, padding_index=3)
    np.testing.assert_array_equal(out, np.where(index[:, None] == 3, 0, weight[index]))
    given = {"weight": weight, "index": index, "out_grad": grads}
    (grad,) = call("embedding_grad", given, "weight_grad", padding_index=3)
    expected = add_up(index, grads, (count, 4))
    expected[3] = 0
    np.testing.assert_array_equal(grad, expected)
