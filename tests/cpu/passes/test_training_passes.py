"""Passes fuse only the expected operators of a training step and do not change its results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright_nn import layers

PASSES = ("fuse_fc", "fuse_softmax_cross_entropy", "fuse_fc_sgd", "fuse_fc_input_grad")
FUSED = {
    "fuse_fc": "fc",
    "fuse_softmax_cross_entropy": "std.softmax_cross_entropy",
    "fuse_fc_sgd": "cpu.fc_sgd",
    "fuse_fc_input_grad": "cpu.fc_input_grad",
}


class DecayingSGD(nn.optimizer.SGD):
    """SGD that sets the weight-decay attribute of the sgd operator."""

    def attrs(self) -> dict[str, Any]:
        return {"weight_decay": 0.01}


class Step:
    """A small network of fully connected layers with its loss, gradients and updates."""

    def __init__(
        self,
        activation: str = "sigmoid",
        *,
        bias: bool = True,
        from_scores: bool = False,
        optimizer: Any = nn.optimizer.SGD,
        dtype: str = "float32",
        plain: bool = False,
    ) -> None:
        self.main, self.startup = ow.Program(), ow.Program()
        self.dtype = dtype
        with ow.program_guard(self.main, self.startup):
            x = layers.data("x", shape=[None, 9], dtype=dtype)
            label = layers.data("label", shape=[None, 1], dtype="int64")
            if plain:
                w = layers.fc(x, 4, bias=False)  # sets the parameters of the layer
                h = getattr(ow.ops, activation)(ow.ops.add(w, ow.ops.mean(w, axis=[0])))
            else:
                h = layers.fc(x, 37, activation=activation, bias=bias)
            h = layers.fc(h, 21, activation=activation, bias=bias)
            if from_scores:
                self.prob = layers.fc(h, 5)
                rows = layers.softmax_with_cross_entropy(self.prob, label)
            else:
                self.prob = layers.fc(h, 5, activation="softmax")
                rows = layers.cross_entropy(self.prob, label)
            self.loss = layers.mean(rows)
            optimizer(0.5).minimize(self.loss)
        self.network = ow.Network(self.main.global_block())

    def run(
        self, passes: Sequence[str] | None, rows: int, fetch: Sequence[Any] = (), steps: int = 3
    ) -> tuple[list[list[np.ndarray]], dict[str, np.ndarray], Counter[str]]:
        """Return the fetches of each step, the final parameters, and operator type counts."""
        scope = ow.Scope()
        ow.Network(self.startup.global_block()).run(scope)
        rng = np.random.default_rng(3)
        x = rng.standard_normal((rows, 9)).astype(self.dtype)
        label = rng.integers(0, 5, (rows, 1))
        step = self.network.compile(
            feed=["x", "label"], fetch=[self.loss, *fetch], scope=scope, passes=passes
        )
        found = [step(x=x, label=label) for _ in range(steps)]
        params = {p.name: scope.var(p.name).numpy() for p in self.main.parameters()}
        return found, params, Counter(self.network.placement().types)


def assert_same(step: Step, rows: int, fetch: Sequence[Any] = (), tolerance: float = 2e-5) -> None:
    plain = step.run([], rows, fetch)
    for passes in (None, *([name] for name in PASSES)):
        fused = step.run(passes, rows, fetch)
        for got, wanted in zip(fused[0], plain[0], strict=True):
            for a, b in zip(got, wanted, strict=True):
                np.testing.assert_allclose(
                    a, b, rtol=tolerance, atol=tolerance, err_msg=str(passes)
                )
        for name, value in plain[1].items():
            np.testing.assert_allclose(
                fused[1][name], value, rtol=tolerance, atol=tolerance, err_msg=f"{passes} {name}"
            )


@pytest.mark.parametrize("rows", [1, 2, 5, 64])
@pytest.mark.parametrize("activation", ["relu", "sigmoid", "tanh"])
@pytest.mark.parametrize("from_scores", [False, True])
def test_a_step_gives_the_same_results_with_and_without_each_pass(rows, activation, from_scores):
    assert_same(Step(activation, from_scores=from_scores, optimizer=DecayingSGD), rows)


def test_a_step_in_float64_matches_to_float64_precision():
    assert_same(Step("tanh", dtype="float64"), 6, tolerance=1e-12)


def test_a_layer_without_bias_gives_the_same_results():
    assert_same(Step("sigmoid", bias=False), 6)


def test_a_product_that_is_not_a_layer_is_not_fused():
    assert_same(Step("sigmoid", plain=True), 6)


@pytest.mark.parametrize("name", PASSES)
def test_each_pass_fuses_its_operators(name):
    types = Step().run([name], 8, steps=1)[2]
    assert types[FUSED[name]] >= 1


def test_a_complete_step_runs_exactly_six_kernels():
    types = Step().run(None, 8, steps=1)[2]
    assert types == {
        "fc": 3,
        "std.softmax_cross_entropy": 1,
        "mean": 1,
        "cpu.fc_input_grad": 2,
        "cpu.fc_sgd": 3,
    }


def test_a_fetched_gradient_is_computed_and_unchanged():
    step = Step()
    block = step.main.global_block()
    grads = [block.var(f"{p.name}_grad") for p in step.main.parameters()]
    assert_same(step, 7, [*grads, step.prob])
    types = step.run(None, 7, grads, steps=1)[2]
    assert types["cpu.fc_sgd"] == 0
    assert types["std.multi_sgd"] == 1


def test_the_fused_loss_returns_fetched_probabilities():
    step = Step()
    assert_same(step, 7, [step.prob])
    assert step.run(None, 7, [step.prob], steps=1)[2]["std.softmax_cross_entropy"] == 1


def test_the_error_for_a_label_out_of_range_is_the_same_without_the_pass():
    step = Step()
    scope = ow.Scope()
    ow.Network(step.startup.global_block()).run(scope)
    call = step.network.compile(feed=["x", "label"], fetch=[step.loss], scope=scope)
    with pytest.raises(
        ow.errors.KernelError, match=r"cross_entropy: label must be in \[0, 5\), got 7"
    ):
        call(x=np.zeros((2, 9), np.float32), label=np.array([[1], [7]]))


def test_the_number_of_threads_changes_only_the_last_digits():
    step = Step()
    found = []
    for count in (1, 2):
        ow.set_num_threads(count)
        found.append(step.run(None, 400))
    for one, two in zip(found[0][0], found[1][0], strict=True):
        np.testing.assert_allclose(one[0], two[0], rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "int32"])
def test_operators_are_not_fused_for_dtypes_that_the_fused_operator_refuses(dtype):
    ops = [
        ow.Operator("matmul", x="x", y="w", out="product"),
        ow.Operator("add", x="product", y="b", out="sum"),
        ow.Operator("relu", x="sum", out="out"),
    ]
    arrays = {"x": np.ones((2, 3)), "w": np.ones((3, 4)), "b": np.arange(4) - 4}
    feeds = {name: array.astype(dtype) for name, array in arrays.items()}
    for passes in (None, []):
        call = ow.Network(ops).compile(feed=list(feeds), fetch=["out"], passes=passes)
        np.testing.assert_array_equal(call(**feeds)[0], [[0, 0, 1, 2], [0, 0, 1, 2]])


def test_an_infinite_gradient_is_zeroed_where_relu_is_flat():
    program = ow.Program()
    block = program.global_block()
    feeds = {
        "x": np.array([[-1.0], [0.0], [4.0]], np.float32),
        "out_grad": np.array([[np.inf], [np.inf], [0.25]], np.float32),
    }
    values = {"w": np.ones((1, 1), np.float32), "b": np.zeros(1, np.float32)}
    values["v"] = values["w"]
    for name, array in feeds.items():
        block.create_var(name, array.shape, array.dtype, is_data=True)
    scope = ow.Scope()
    for name, array in values.items():
        block.create_parameter(name, array.shape, array.dtype)
        scope.var(name).set(array)
    attrs = {"activation": "relu"}
    (h,) = block.append_op("fc", {"x": "x", "weight": "w", "bias": "b"}, {}, attrs).output("out")
    (out,) = block.append_op("fc", {"x": h, "weight": "v"}).output("out")
    (product,) = block.append_op("multiply", {"x": out, "y": "out_grad"}).output("out")
    pairs = ow.append_backward(block.var(product), parameters=["w", "b"])
    network = ow.Network(block)
    fetch = [gradient.name for _, gradient in pairs]
    step = network.compile(feed=list(feeds), fetch=fetch, scope=scope)
    w_grad, b_grad = step(**feeds)
    assert "cpu.fc_input_grad" in network.placement().types
    np.testing.assert_array_equal(w_grad, [[1.0]])
    np.testing.assert_array_equal(b_grad, [0.25])
