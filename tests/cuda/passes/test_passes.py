"""Fused operators on a GPU match the separate operators."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from updates import KINDS, SHAPES, update

import opwright as ow
import opwright_nn as nn
from opwright.op import dtype_to_numpy
from opwright_nn import layers

pytestmark = pytest.mark.cuda_kernels


class Made:
    """A program with feeds, to which tests append operators."""

    def __init__(self, dtype: str = "float32", **shapes: tuple[int, ...]) -> None:
        self.block = ow.Program(seed=1).global_block()
        self.rng = np.random.default_rng(3)
        self.feeds: dict[str, Any] = {}
        for name, shape in shapes.items():
            numbers = np.asarray(self.rng.uniform(-1, 1, shape))
            self.feed(name, numbers.astype(dtype_to_numpy(dtype)))

    def feed(self, name: str, value: Any) -> str:
        self.feeds[name] = value
        self.block.create_var(name, value.shape, value.dtype.name, stop_gradient=False)
        return name

    def put(self, op: str, *names: str, **attrs: Any) -> str:
        made = self.block.append_op(op, dict(zip("xy", names, strict=False)), attrs=attrs)
        return made.output("out")[0]

    def run(self, fetch: list[str], passes: list[str]) -> tuple[list[Any], Counter[str]]:
        network = ow.Network(self.block)
        call = network.compile(list(self.feeds), fetch, device="cuda", passes=passes)
        return call(**self.feeds), Counter(network.placement().types)

    def assert_same(
        self, fetch: list[str], passes: list[str], ulps: int = 0, magnitude: float = 0.0
    ) -> Counter[str]:
        """Compare runs with and without passes; return the operators of the run with passes."""
        apart, _ = self.run(fetch, [])
        together, types = self.run(fetch, passes)
        for a, b in zip(apart, together, strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            unit = 2.0**-10 if a.dtype.itemsize == 2 else float(np.finfo(a.dtype).eps)
            one, other = a.astype(np.float64), b.astype(np.float64)
            np.testing.assert_allclose(one, other, rtol=ulps * unit, atol=magnitude * unit)
        return types


# fuse_optimizers


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("kind", KINDS)
def test_merged_updates_match_separate_updates(kind: str, dtype: str) -> None:
    apart, one_by_one = update("cuda", kind, SHAPES, dtype, [])
    together, merged = update("cuda", kind, SHAPES, dtype, ["fuse_optimizers"])
    assert one_by_one[kind] == len(SHAPES)
    assert merged == {f"std.multi_{kind}": 1}
    for name, value in apart.items():
        np.testing.assert_array_equal(together[name], value, err_msg=name)


@pytest.mark.parametrize("kind", KINDS)
def test_more_parameters_than_one_launch_supports_use_several_launches(kind: str) -> None:
    shapes = tuple((1 + i % 3,) for i in range(250))
    apart, _ = update("cuda", kind, shapes, "float32", [])
    together, merged = update("cuda", kind, shapes, "float32", ["fuse_optimizers"])
    assert merged == {f"std.multi_{kind}": 1}
    for name, value in apart.items():
        np.testing.assert_array_equal(together[name], value, err_msg=name)


# fuse_elementwise


CHAIN = "std.elementwise_chain"
ONE_INPUT: dict[str, dict[str, Any]] = {
    **{op: {} for op in ("abs", "negative", "sign", "square", "exp", "erf", "relu", "sigmoid")},
    **{op: {} for op in ("tanh", "softplus", "silu", "leaky_relu")},
    "gelu": {"approximate": "tanh"},
    "scale": {"scale": -1.5, "bias": 0.25},
    "clip": {"min": -0.5, "max": 0.75},
    "elu": {"alpha": 0.7},
    **{op: {} for op in ("sin", "atan", "selu", "mish", "softsign", "hard_swish")},
    "stanh": {"scale_a": 0.5, "scale_b": 1.5},
    "hard_sigmoid": {"alpha": 0.25, "beta": 0.5},
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_a_chain_of_all_functions_needs_one_launch(dtype: str) -> None:
    made = Made(dtype, x=(6, 35), row=(35,), column=(6, 1))
    h = made.put("add", "x", "row")
    for op, attrs in ONE_INPUT.items():
        h = made.put(op, h, **attrs)
    for op in ("subtract", "multiply", "maximum", "minimum"):
        h = made.put(op, h, "column" if op == "subtract" else "x")
    ulps = 0 if dtype in ("float16", "bfloat16") else 4
    assert made.assert_same([h], ["fuse_elementwise"], ulps) == {CHAIN: 1}


@pytest.mark.parametrize("columns", [1, 3, 1024, 5001])
def test_values_that_are_read_twice_stay_inside_the_fused_chain(columns: int) -> None:
    made = Made(x=(3, columns), scalar=())
    h = made.put("multiply", "x", "scalar")
    left, right = made.put("sigmoid", h), made.put("tanh", h)
    out = made.put("subtract", made.put("multiply", left, h), made.put("divide", right, "x"))
    assert made.assert_same([out], ["fuse_elementwise"], 4) == {CHAIN: 1}


def test_fetched_values_are_kept() -> None:
    made = Made(x=(2, 5), y=(2, 5))
    middle = made.put("exp", made.put("add", "x", "y"))
    out = made.put("negative", made.put("square", middle))
    assert made.assert_same([out, middle], ["fuse_elementwise"], 4) == {CHAIN: 2}


def test_elementwise_gradients_are_fused() -> None:
    made = Made(x=(4, 9), weights=(4, 9))
    h = "x"
    for op in ("gelu", "elu", "clip", "tanh", "silu"):
        h = made.put(op, h, **ONE_INPUT[op])
    loss = made.put("sum", made.put("multiply", h, "weights"))
    ((_, grad),) = ow.append_backward(made.block.vars[loss], parameters=["x"])
    types = made.assert_same([grad.name], ["fuse_elementwise"], 16, magnitude=1)
    assert types[CHAIN] >= 1
    assert not any(name.removesuffix("_grad") in ONE_INPUT for name in types)


def test_a_chain_of_empty_tensors_is_empty() -> None:
    made = Made(x=(0, 5))
    assert made.assert_same([made.put("exp", made.put("tanh", "x"))], ["fuse_elementwise"])


# fuse_fc


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("activation", ["relu", "sigmoid", "tanh", "softmax"])
def test_a_product_with_bias_and_activation_is_fused_into_a_layer(
    activation: str, dtype: str
) -> None:
    made = Made(dtype, x=(2, 5, 7), weight=(7, 3), bias=(3,))
    h = made.put("add", made.put("matmul", "x", "weight"), "bias")
    types = made.assert_same([made.put(activation, h)], ["fuse_fc"], 4, magnitude=8)
    assert types == {"fc": 1}


# fuse_softmax_cross_entropy


LOSS = "std.softmax_cross_entropy"


def classify(made: Made, labels: Any, from_scores: bool, **attrs: Any) -> tuple[str, str, str]:
    """Add softmax, loss and gradients; return the names of softmax, losses and gradient of x."""
    label = made.feed("label", labels)
    if from_scores:
        slots = {"logits": "x", "label": label}
        op = made.block.append_op("softmax_with_cross_entropy", slots, attrs=attrs)
        (probability,) = op.output("softmax")
    else:
        probability = made.put("softmax", "x")
        op = made.block.append_op("cross_entropy", {"x": probability, "label": label}, attrs=attrs)
    (rows,) = op.output("out")
    loss = made.block.vars[made.put("mean", rows)]
    ((_, grad),) = ow.append_backward(loss, parameters=["x"])
    return probability, rows, grad.name


@pytest.mark.parametrize("from_scores", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_softmax_loss_and_gradient_need_one_launch(
    dtype: str, index: str, from_scores: bool
) -> None:
    made = Made(dtype, x=(9, 5))
    fetch = classify(made, made.rng.integers(0, 5, (9, 1)).astype(index), from_scores)
    types = made.assert_same([*fetch], ["fuse_softmax_cross_entropy"], 8, magnitude=1)
    assert types[LOSS] == 1
    assert not any("softmax" in name for name in types if name != LOSS)
    wanted = [*fetch[1:]]  # without the probabilities
    assert made.assert_same(wanted, ["fuse_softmax_cross_entropy"], 8, magnitude=1)[LOSS] == 1


@pytest.mark.parametrize("from_scores", [False, True])
@pytest.mark.parametrize("classes", [1, 300, 1500, 9000, 20000])
def test_a_fused_loss_of_many_classes_matches_the_separate_operators(
    classes: int, from_scores: bool
) -> None:
    made = Made(x=(3, classes))
    fetch = classify(made, made.rng.integers(0, classes, (3, 1)), from_scores)
    types = made.assert_same([*fetch], ["fuse_softmax_cross_entropy"], 32, magnitude=1)
    assert types[LOSS] == 1


def test_ignored_rows_have_no_loss() -> None:
    made = Made(x=(4, 5))
    labels = np.array([[0], [-7], [4], [-7]])
    fetch = classify(made, labels, from_scores=True, ignore_index=-7)
    assert made.assert_same([*fetch], ["fuse_softmax_cross_entropy"], 8)[LOSS] == 1


def test_the_gradient_is_0_for_probabilities_below_epsilon() -> None:
    made = Made(x=(2, 3))
    made.feeds["x"] = np.array([[0, 0, -50], [1, 0, -50]], np.float32)
    fetch = classify(made, np.array([[2], [0]]), from_scores=False, epsilon=1e-6)
    assert made.assert_same([*fetch], ["fuse_softmax_cross_entropy"], 8)[LOSS] == 1


@pytest.mark.parametrize("from_scores", [False, True])
def test_the_error_for_a_label_out_of_range_names_the_operator(from_scores: bool) -> None:
    made = Made(x=(2, 3))
    fetch = classify(made, np.array([[2], [3]]), from_scores)
    name = "softmax_with_cross_entropy" if from_scores else "cross_entropy"
    with pytest.raises(ow.errors.OpwrightError, match=rf"{name}: label must be .*got 3"):
        made.run([*fetch], ["fuse_softmax_cross_entropy"])


# fuse_bias_grad


GRADS = "cuda.bias_activation_grad"


def layer_grads(made: Made, activation: str) -> list[str]:
    """Add the gradients of a layer; return the names of the x, weight and bias gradients."""
    h = made.put(activation, made.put("add", made.put("matmul", "x", "weight"), "bias"))
    loss = made.block.vars[made.put("sum", made.put("multiply", h, "out_grad"))]
    pairs = ow.append_backward(loss, parameters=["x", "weight", "bias"])
    return [grad.name for _, grad in pairs]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("activation", ["relu", "sigmoid", "tanh"])
def test_gradients_of_activation_and_bias_need_one_launch(activation: str, dtype: str) -> None:
    made = Made(dtype, x=(2, 9, 4), weight=(4, 37), bias=(37,), out_grad=(2, 9, 37))
    grads = layer_grads(made, activation)
    types = made.assert_same(grads, ["fuse_bias_grad"], 8, magnitude=32)
    assert types[GRADS] == 1
    assert types[f"{activation}_grad"] == 0


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (0, 5), (200, 3), (512, 33), (7, 300)])
def test_fused_gradients_of_any_number_of_rows_match_the_separate_operators(
    rows: int, columns: int
) -> None:
    made = Made(x=(rows, 2), weight=(2, columns), bias=(columns,), out_grad=(rows, columns))
    types = made.assert_same(layer_grads(made, "tanh"), ["fuse_bias_grad"], 16, magnitude=64)
    assert types[GRADS] == 1


def test_large_batches_need_two_launches() -> None:
    made = Made(x=(513, 2), weight=(2, 3), bias=(3,), out_grad=(513, 3))
    types = made.assert_same(layer_grads(made, "tanh"), ["fuse_bias_grad"])
    assert (types[GRADS], types["tanh_grad"]) == (0, 1)


# All passes together


PASSES = (
    *("fuse_fc", "fuse_softmax_cross_entropy", "fuse_optimizers"),
    *("fuse_layer_grads", "fuse_bias_grad"),
)


def train(make: Any, passes: list[str] | None) -> tuple[list[Any], Counter[str]]:
    """Return the loss and all persistables after three steps, and the operators by type."""
    main, startup = ow.Program(seed=5), ow.Program(seed=5)
    with ow.program_guard(main, startup):
        x = layers.data("x", shape=[None, 9])
        label = layers.data("label", shape=[None, 1], dtype="int64")
        h = layers.fc(layers.fc(x, 37, activation="sigmoid"), 21, activation="relu")
        probability = layers.fc(h, 5, activation="softmax")
        loss = layers.mean(layers.cross_entropy(probability, label))
        make().minimize(loss)
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    network = ow.Network(main.global_block())
    step = network.compile(["x", "label"], [loss], device="cuda", scope=scope, passes=passes)
    rng = np.random.default_rng(0)
    feeds = {"x": rng.standard_normal((8, 9)).astype("f"), "label": rng.integers(0, 5, (8, 1))}
    losses = [step(**feeds)[0] for _ in range(3)]
    kept = [v.name for v in main.global_block().vars.values() if v.persistable]
    arrays = [*losses, *(scope.var(name).numpy() for name in kept)]
    return arrays, Counter(network.placement().types)


@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_a_training_step_matches_with_and_without_each_pass(kind: str) -> None:
    make = {"sgd": lambda: nn.optimizer.SGD(0.5), "adam": lambda: nn.optimizer.Adam(0.01)}[kind]
    plain, _ = train(make, [])
    for passes in (None, *([name] for name in PASSES), *([f"-{name}"] for name in PASSES)):
        fused, types = train(make, passes)
        for one, other in zip(fused, plain, strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5, err_msg=str(passes))
        if passes is None:
            assert types == {
                "fc": 3,
                LOSS: 1,
                "mean": 1,
                "cuda.layer_grads": 3,
                f"std.multi_{kind}": 1,
            }
