"""Fused batch normalization matches the separate operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import opwright as ow
from opwright.op import dtype_to_numpy
from opwright_nn import layers

pytestmark = pytest.mark.cuda_kernels

FUSED = "std.batch_norm_activation"
GRAD = "std.batch_norm_activation_grad"
SHAPE = (3, 8, 5, 7)

Build = Callable[[Any, Any], Any]


def normal(x: Any, activation: str | None = None, training: bool = True) -> Any:
    return layers.batch_norm(x, activation=activation, training=training)


def relu_of_sum(x: Any, y: Any) -> Any:
    return layers.relu(ow.ops.add(x, y))


class Step:
    """Computes the gradients of x, y and all parameters of a network with two inputs.

    Parameters
    ----------
    build : callable
        Called with x and y; returns the network's output.
    dtype : str
    shape : tuple of int
        The shape of x and y.
    """

    def __init__(
        self, build: Build, dtype: str = "float32", shape: tuple[int, ...] = SHAPE
    ) -> None:
        rng = np.random.default_rng(5)
        feeds = {name: rng.standard_normal(shape) + 3 for name in ("x", "y", "weight")}
        self.feeds = {k: v.astype(dtype_to_numpy(dtype)) for k, v in feeds.items()}
        self.startup = ow.Program(seed=2)
        with ow.program_guard(ow.Program(seed=2), self.startup) as (main, _):
            x, y, weight = (layers.data(name, [*shape], dtype) for name in feeds)
            x.stop_gradient = y.stop_gradient = False
            self.out = build(x, y)
            loss = layers.mean(ow.ops.multiply(self.out, weight))
            self.block = main.global_block()
            self.parameters = [name for name in self.block.vars if name.endswith("_param")]
            pairs = ow.append_backward(loss, parameters=["x", "y", *self.parameters])
        self.fetch = [self.out.name, *(grad.name for _, grad in pairs)]

    def run(self, passes: list[str], more: tuple[str, ...] = ()) -> tuple[list[Any], Counter[str]]:
        """Return the fetches and running statistics, and the number of operators by type."""
        scope = ow.Scope()
        ow.Network(self.startup.global_block()).run(scope)
        rng = np.random.default_rng(7)
        for name in self.parameters:  # scale and bias differ between channels
            usual = scope.var(name).numpy()
            scope.var(name).set(usual + rng.uniform(-0.5, 0.5, usual.shape).astype(usual.dtype))
        network = ow.Network(self.block)
        call = network.compile(
            [*self.feeds], [*self.fetch, *more], device="cuda", scope=scope, passes=passes
        )
        found = call(**self.feeds)
        kept = [scope.var(v.name).numpy() for v in self.block.vars.values() if v.persistable]
        return [*found, *kept], Counter(network.placement().types)

    def types_where_same(self, more: tuple[str, ...] = ()) -> Counter[str]:
        """Compare runs with and without the pass; return the operators of the run with the pass."""
        apart, _ = self.run([], more)
        together, types = self.run(["fuse_batch_norm"], more)
        for one, other in zip(apart, together, strict=True):
            unit = 2.0**-8 if one.dtype.itemsize == 2 else float(np.finfo(one.dtype).eps)
            a, b = one.astype(np.float64), other.astype(np.float64)
            np.testing.assert_allclose(a, b, rtol=32 * unit, atol=32 * unit * np.abs(a).max())
        return types


DTYPES = ["float16", "bfloat16", "float32", "float64"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_relu_and_its_gradient_are_fused(dtype: str) -> None:
    types = Step(lambda x, y: ow.ops.add(normal(x, "relu"), y), dtype).types_where_same()
    assert (types[FUSED], types[GRAD]) == (1, 1)
    assert not {"relu", "relu_grad", "batch_norm", "batch_norm_grad"} & set(types)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_residual_is_fused(dtype: str) -> None:
    types = Step(lambda x, y: relu_of_sum(normal(x), y), dtype).types_where_same()
    assert (types[FUSED], types[GRAD]) == (1, 1)
    assert not {"relu", "add", "relu_grad", "batch_norm", "batch_norm_grad"} & set(types)


def test_a_residual_without_a_gradient_is_fused_with_relu() -> None:
    def build(x: Any, y: Any) -> Any:
        return ow.ops.add(relu_of_sum(normal(x), ow.ops.fill_like(x, value=0.5)), y)

    types = Step(build).types_where_same()
    assert (types[FUSED], types[GRAD], types["relu_grad"]) == (1, 1, 0)


def test_a_sum_of_two_normalizations_is_fused_with_one_of_them() -> None:
    types = Step(lambda x, y: relu_of_sum(normal(x), normal(y))).types_where_same()
    assert (types[FUSED], types["batch_norm"], types["add"], types["relu"]) == (1, 1, 0, 0)
    assert (types[GRAD], types["batch_norm_grad"], types["relu_grad"]) == (1, 1, 0)


def test_a_sum_without_relu_is_fused() -> None:
    types = Step(lambda x, y: ow.ops.add(normal(x), y)).types_where_same()
    assert (types[FUSED], types["add"], types[GRAD]) == (1, 0, 0)


def test_normalization_with_running_statistics_is_fused() -> None:
    types = Step(lambda x, y: relu_of_sum(normal(x, None, False), y)).types_where_same()
    assert (types[FUSED], types[GRAD]) == (1, 1)


@pytest.mark.parametrize("shape", [(70, 24), (2, 5, 9), (1, 3, 1, 1), (4, 2, 3, 3, 3)])
def test_images_can_have_any_number_of_axes(shape: tuple[int, ...]) -> None:
    types = Step(lambda x, y: relu_of_sum(normal(x, "relu"), y), shape=shape).types_where_same()
    assert (types[FUSED], types[GRAD]) == (1, 1)


def test_a_normalization_with_other_readers_is_not_fused() -> None:
    def build(x: Any, y: Any) -> Any:
        h = normal(x)
        return ow.ops.multiply(layers.relu(h), ow.ops.add(h, y))

    types = Step(build).types_where_same()
    assert (types[FUSED], types["batch_norm"], types["relu"]) == (0, 1, 1)


def test_a_fetched_relu_gradient_is_written_by_the_fused_gradient() -> None:
    step = Step(lambda x, y: ow.ops.add(normal(x, "relu"), y))
    (middle,) = [name for name in step.block.vars if name.endswith("normal_grad")]
    types = step.types_where_same((middle,))
    assert (types[FUSED], types[GRAD], types["relu_grad"]) == (1, 1, 0)


def test_a_broadcast_summand_is_not_fused() -> None:
    def build(x: Any, y: Any) -> Any:
        return relu_of_sum(normal(x), ow.ops.mean(y, axis=[0], keepdims=True))

    types = Step(build).types_where_same()
    assert (types[FUSED], types["batch_norm"], types["add"]) == (0, 1, 1)


def test_adding_the_same_summand_twice_is_not_fused() -> None:
    def build(x: Any, y: Any) -> Any:
        h = normal(x)
        return ow.ops.add(relu_of_sum(h, h), y)

    types = Step(build).types_where_same()
    assert (types[FUSED], types["batch_norm"], types["add"]) == (0, 1, 2)
