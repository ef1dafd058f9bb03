"""Random numbers on a GPU are bitwise identical to random numbers on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import opwright as ow
from opwright_std.numerics.box_muller import random_normal
from opwright_std.numerics.philox import random_uniform

pytestmark = pytest.mark.cuda_kernels

SEEDS = ((1, 0), (-2, 2**32 - 1), (2**63 - 1, 7))
"""Pairs of seed and stream."""


def draw(device: str, op: str, step: int, **attrs: Any) -> Any:
    """Return the result of a random operator without inputs at a given step."""
    block = ow.Program().global_block()
    block.create_var("step", [1], "int64")
    (out,) = block.append_op(op, {"step": "step"}, {"out": "out"}, attrs).output("out")
    call = ow.Network(block).compile(feed=["step"], fetch=[out], device=device)
    return call(step=np.array([step], np.int64))[0]


def assert_same_bits(one: Any, other: Any) -> None:
    assert one.dtype == other.dtype
    np.testing.assert_array_equal(one.view(np.uint8), other.view(np.uint8))


@pytest.mark.parametrize(("seed", "stream"), SEEDS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [[1], [3, 5], [4096], [2, 5003]])
def test_uniform_and_normal_numbers_match_the_cpu(
    shape: list[int], dtype: str, seed: int, stream: int
) -> None:
    key = {"seed": seed, "stream": stream, "shape": shape, "dtype": dtype}
    for op, attrs in (
        ("uniform", {"min": -0.3, "max": 0.9}),
        ("normal", {"mean": 2.0, "std": 0.1}),
    ):
        for step in (0, 2**40 + 3):
            on_gpu, on_cpu = (draw(d, op, step, **key, **attrs) for d in ("cuda", "cpu"))
            assert_same_bits(on_gpu, on_cpu)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bit_random_numbers_are_float32_numbers_rounded_once(dtype: str) -> None:
    step = np.array([5], np.int64)
    for op, reference in (("uniform", random_uniform), ("normal", random_normal)):
        attrs = {"min": 0.0, "max": 1.0} if op == "uniform" else {}
        got = draw("cuda", op, 5, shape=[1003], dtype=dtype, seed=9, stream=4, **attrs)
        assert_same_bits(got, reference(1003, np.dtype("float32"), 9, 4, step).astype(got.dtype))


def drop(device: str, x: Any, probability: float, seed: int, stream: int) -> list[Any]:
    """Return the output and mask of dropout, and the gradient of x."""
    block = ow.Program().global_block()
    block.create_var("x", x.shape, x.dtype.name)
    block.create_var("step", [1], "int64")
    block.create_var("out_grad", x.shape, x.dtype.name)
    attrs = {"probability": probability, "training": True, "seed": seed, "stream": stream}
    slots = {"x": "x", "step": "step"}
    block.append_op("dropout", slots, {"out": "out", "mask": "mask"}, attrs)
    slots = {**slots, "mask": "mask", "out_grad": "out_grad"}
    block.append_op("dropout_grad", slots, {"x_grad": "x_grad"}, attrs)
    call = ow.Network(block).compile(
        feed=["x", "step", "out_grad"], fetch=["out", "mask", "x_grad"], device=device
    )
    return list(call(x=x, step=np.array([3], np.int64), out_grad=x * 2 + 1))


@pytest.mark.parametrize(("seed", "stream"), SEEDS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(1,), (3, 5), (4, 2501)])
@pytest.mark.parametrize("probability", [0.0, 0.3, 1.0])
def test_dropout_keeps_the_same_elements_as_the_cpu(
    probability: float, shape: tuple[int, ...], dtype: str, seed: int, stream: int
) -> None:
    x = np.linspace(-3, 5, int(np.prod(shape))).reshape(shape).astype(dtype)
    x.flat[0] = np.inf  # becomes 0 if dropped
    given = (x, probability, seed, stream)
    for on_gpu, on_cpu in zip(drop("cuda", *given), drop("cpu", *given), strict=True):
        assert_same_bits(on_gpu, on_cpu)
