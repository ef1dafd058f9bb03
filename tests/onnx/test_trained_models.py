"""Models loaded for training compute the same results, and only their weights are parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_models import make_model, node, tensor

import opwright as ow
import opwright_onnx

RNG = np.random.default_rng(0)


def draw(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("flags", [{}, {"transB": 1}, {"transA": 1, "transB": 1}])
def test_a_layer_is_the_same_with_and_without_training(flags: dict[str, int]) -> None:
    nodes = [node("Gemm", ["x", "w", "b"], ["y"], **flags)]
    weights = {"w": draw(4, 4), "b": draw(4)}
    model = make_model(nodes, [tensor("x", [4, 4])], [tensor("y", None)], weights)
    x = draw(4, 4)
    trained, fixed = (opwright_onnx.load(model, trainable=flag)(x)[0] for flag in (True, False))
    np.testing.assert_allclose(trained, fixed, rtol=1e-5, atol=1e-6)


def test_constants_are_not_parameters_of_a_trained_model() -> None:
    nodes = [
        node("Constant", [], ["two"], value_float=2.0),
        node("Constant", [], ["many"], value_floats=[float(i) for i in range(100)]),
        node("Mul", ["x", "w"], ["scaled"]),
        node("Pow", ["scaled", "two"], ["square"]),
        node("Mul", ["square", "rate"], ["small"]),
        node("Add", ["small", "many"], ["y"]),
    ]
    weights = {"w": draw(100), "rate": np.array(0.1, np.float32)}
    model = make_model(nodes, [tensor("x", ["n", 100])], [tensor("y", None)], weights)
    loaded = opwright_onnx.load(model, trainable=True)
    assert [parameter.name for parameter in loaded.program.parameters()] == ["w"]
    x = draw(3, 100)
    expected = (x * weights["w"]) ** 2 * weights["rate"] + np.arange(100)
    np.testing.assert_allclose(loaded(x)[0], expected, rtol=1e-5)


def test_a_trained_exponent_has_a_gradient() -> None:
    nodes = [node("Pow", ["x", "p"], ["y"])]
    exponent = np.array([3], np.float32)
    model = make_model(nodes, [tensor("x", ["n", 4])], [tensor("y", None)], {"p": exponent})
    loaded = opwright_onnx.load(model, trainable=True)
    block = loaded.program.global_block()
    total = block.append_op("sum", {"x": "y"}, {"out": "total"}).output("out")[0]
    pairs = ow.append_backward(block.var(total))
    assert [parameter.name for parameter, _ in pairs] == ["p"]
    step = ow.Network(block).compile(["x"], [pairs[0][1]], scope=loaded.scope)
    x = np.abs(draw(3, 4)) + 0.5
    np.testing.assert_allclose(step(x)[0], [(x**3 * np.log(x)).sum()], rtol=1e-5)
