"""Layers with weights [outputs, inputs] are fused, and match layers with [inputs, outputs]."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from thread_counts import thread_counts

import opwright as ow
import opwright_nn as nn
from opwright_nn import layers

n_threads = thread_counts(1, 2, autouse=True)


class Step:
    """A training step of layers written as matrix products and additions.

    Parameters
    ----------
    turned : bool
        Whether weights are [outputs, inputs].
    sizes : sequence of int
        The number of inputs, and of outputs of each layer.
    activation : str
        The activation between the layers.
    op : bool
        Whether layers are ``fc`` instead of products and sums.
    """

    def __init__(
        self,
        turned: bool,
        sizes: tuple[int, ...],
        activation: str,
        *,
        rank: int = 2,
        op: bool = False,
        dtype: str = "float32",
        optimizer: Any = nn.optimizer.SGD,
    ) -> None:
        self.turned, self.sizes, self.op, self.dtype = turned, sizes, op, dtype
        self.main, self.scope = ow.Program(), ow.Scope()
        self.startup = ow.Program()
        rng = np.random.default_rng(4)
        with ow.program_guard(self.main, self.startup):
            h = layers.data("x", shape=[None] * (rank - 1) + [sizes[0]], dtype=dtype)
            for i, (k, n) in enumerate(pairwise(sizes)):
                h = self.layer(i, h, rng.normal(0, 0.3, (k, n)), rng.normal(0, 1, n), rank)
                if i + 2 < len(sizes):
                    h = getattr(ow.ops, activation)(h)
            self.out = h
            self.loss = layers.mean(ow.ops.square(h))
            optimizer(0.25).minimize(self.loss)
        ow.Network(self.startup.global_block()).run(self.scope)
        self.network = ow.Network(self.main.global_block())

    def layer(
        self, i: int, x: ow.Variable, weight: np.ndarray, bias: np.ndarray, rank: int
    ) -> ow.Variable:
        given = {f"w{i}": weight.T if self.turned else weight, f"b{i}": bias}
        for name, array in given.items():
            self.main.global_block().create_parameter(name, array.shape, self.dtype)
            self.scope.var(name).set(np.ascontiguousarray(array, self.dtype))
        w, b = (self.main.global_block().var(name) for name in given)
        if self.op:
            attrs = {"num_flatten_dims": rank - 1, "transpose_weight": self.turned}
            return ow.ops.fc(x, w, b, **attrs)
        return ow.ops.add(ow.ops.matmul(x, w, transpose_y=self.turned), b)

    def run(
        self, rows: tuple[int, ...], passes: list[str] | None = None
    ) -> tuple[list[np.ndarray], Counter[str]]:
        """Return the losses and outputs of two steps and the weights as [inputs, outputs]."""
        x = np.random.default_rng(9).normal(0, 1, (*rows, self.sizes[0])).astype(self.dtype)
        fetch = [self.loss, self.out]
        step = self.network.compile(["x"], fetch, scope=self.scope, passes=passes)
        found = [np.array(array) for _ in range(2) for array in step(x=x)]
        for parameter in sorted(self.main.parameters(), key=lambda p: p.name):
            array = self.scope.var(parameter.name).numpy()
            found.append(array.T if self.turned and array.ndim == 2 else array)
        return found, Counter(self.network.placement().types)


def assert_alike(rows: tuple[int, ...], tolerance: float = 2e-5, **options: Any) -> Counter[str]:
    plain, _ = Step(False, **options).run(rows, [])
    found, types = Step(True, **options).run(rows)
    apart, _ = Step(True, **options).run(rows, [])
    _, other = Step(False, **options).run(rows)
    assert types == other
    for arrays in (found, apart):
        for got, wanted in zip(arrays, plain, strict=True):
            scale = float(np.abs(wanted).max())
            np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance * scale)
    return types


@pytest.mark.parametrize("op", [False, True])
@pytest.mark.parametrize("activation", ["relu", "sigmoid", "tanh"])
@pytest.mark.parametrize("rows", [1, 3, 64, 300])
def test_a_step_of_small_layers_is_fused_in_either_layout(op, activation, rows):
    types = assert_alike((rows,), sizes=(37, 70, 33, 5), activation=activation, op=op)
    assert types["fc"] == types["cpu.fc_sgd"] == 3
    assert types["cpu.fc_input_grad"] == 2


def test_a_step_in_float64_agrees_to_float64_precision():
    assert_alike((20,), 1e-12, sizes=(9, 37, 5), activation="tanh", dtype="float64")


def test_a_step_with_layers_of_many_rows_gives_the_same_results():
    assert_alike((700,), sizes=(130, 257, 64), activation="relu")


def momentum(rate: float) -> Any:
    return nn.optimizer.Momentum(rate, 0.5)


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("op", [False, True])
def test_layers_after_gelu_are_fused_in_either_layout(rank, op):
    rows = (130,) if rank == 2 else (5, 26)
    sizes = (24, 80, 48, 64)
    options = {"activation": "gelu", "rank": rank, "op": op, "optimizer": momentum}
    types = assert_alike(rows, 2e-4, sizes=sizes, **options)
    assert types["cpu.gelu_fc"] == types["cpu.gelu_fc_grad"] == 2


@pytest.mark.parametrize("activation", ["", "relu", "sigmoid", "tanh", "softmax"])
@pytest.mark.parametrize(("rows", "size"), [(1, 40), (7, 40), (1, 700), (40, 700)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_inference_runs_one_fused_layer_with_bias_and_activation(activation, rows, size, dtype):
    found = {}
    rng = np.random.default_rng(2)
    weight, bias = rng.normal(0, 0.1, (size, size + 3)), rng.normal(0, 1, size + 3)
    x = rng.normal(0, 1, (rows, size))
    for turned in (False, True):
        main, scope = ow.Program(), ow.Scope()
        block = main.global_block()
        block.create_var("x", [-1, size], dtype, is_data=True)
        for name, array in {"w": weight.T if turned else weight, "b": bias}.items():
            block.create_parameter(name, array.shape, dtype)
            scope.var(name).set(ow.ops.cast(np.ascontiguousarray(array), dtype=dtype))
        with ow.program_guard(main, ow.Program()):
            product = ow.ops.matmul(block.var("x"), block.var("w"), transpose_y=turned)
            out = ow.ops.add(product, block.var("b"))
            out = getattr(ow.ops, activation)(out) if activation else out
        network = ow.Network(block)
        call = network.compile(["x"], [out], scope=scope)
        found[turned] = ow.ops.cast(call(x=ow.ops.cast(x, dtype=dtype))[0], dtype="float64")
        types = network.placement().types
        assert types == {"fc": 1} or (dtype == "bfloat16" and activation == "softmax")
    unit = {"float32": 1e-5, "float64": 1e-12, "bfloat16": 2e-2}[dtype]
    np.testing.assert_allclose(found[True], found[False], rtol=unit, atol=unit)


def test_a_transposed_weight_with_the_wrong_number_of_inputs_is_refused():
    match = r"fc: weight must have 4 columns, the number of elements of x \[2, 4\]"
    with pytest.raises(ow.errors.ShapeError, match=match):
        ow.ops.fc(np.ones((2, 4)), np.ones((4, 3)), transpose_weight=True)
