"""Small ONNX models for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

node = helper.make_node


def tensor(
    name: str, shape: Sequence[int | str | None] | None, dtype: int = TensorProto.FLOAT
) -> Any:
    return helper.make_tensor_value_info(name, dtype, shape)


def make_model(
    nodes: Sequence[NodeProto],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    weights: Mapping[str, Any] | None = None,
    opset: int = 21,
    **fields: Any,
) -> ModelProto:
    initializers = [
        value if isinstance(value, TensorProto) else numpy_helper.from_array(value, name)
        for name, value in (weights or {}).items()
    ]
    graph = helper.make_graph(nodes, "test", inputs, outputs, initializers)
    domains = {"": opset, **fields.pop("domains", {})}
    imports = [helper.make_opsetid(*pair) for pair in domains.items()]
    return helper.make_model(graph, opset_imports=imports, **fields)


def make_perceptron() -> tuple[ModelProto, dict[str, Any]]:
    rng = np.random.default_rng(0)
    weights = {
        "w1": rng.standard_normal((4, 8)).astype(np.float32),
        "b1": rng.standard_normal(8).astype(np.float32),
        "w2": rng.standard_normal((8, 3)).astype(np.float32),
    }
    nodes = [
        node("Gemm", ["input.1", "w1", "b1"], ["hidden"]),
        node("Relu", ["hidden"], ["active"]),
        node("MatMul", ["active", "w2"], ["scores"]),
    ]
    inputs, outputs = [tensor("input.1", ["batch", 4])], [tensor("scores", ["batch", 3])]
    return make_model(nodes, inputs, outputs, weights), weights


def run_perceptron(weights: Mapping[str, Any], x: Any) -> Any:
    return np.maximum(x @ weights["w1"] + weights["b1"], 0) @ weights["w2"]
