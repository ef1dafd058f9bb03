"""Operators in the domain com.microsoft match ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper
from small_models import make_model, node, tensor

import opwright_onnx
from opwright_onnx import UnsupportedError

RNG = np.random.default_rng(0)
NARROW = 0.125 * np.arange(1, 17, dtype=np.float32)


def draw(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def bytes_(*shape: int) -> Any:
    return RNG.integers(0, 256, shape).astype(np.uint8)


X = draw(2, 3, 8)
CASES: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
    "gelu": ("Gelu", [X], {}),
    "fast gelu": ("FastGelu", [X, draw(8)], {}),
    "bias gelu": ("BiasGelu", [X, draw(8)], {}),
    "quick gelu": ("QuickGelu", [X], {"alpha": 1.702}),
    "product of transposed": (
        "FusedMatMul",
        [draw(2, 8, 3), draw(2, 4, 8)],
        {"transA": 1, "transB": 1, "alpha": 0.5},
    ),
    "product of batches behind the rows": (
        "FusedMatMul",
        [draw(3, 2, 8), draw(2, 8, 4)],
        {"transBatchA": 1},
    ),
    "fused convolution": (
        "FusedConv",
        [draw(2, 3, 5, 6), draw(4, 3, 3, 3), draw(4), draw(2, 4, 5, 6)],
        {"pads": [1, 1, 1, 1], "activation": "Relu"},
    ),
    "fused convolution and a bounded activation": (
        "FusedConv",
        [draw(2, 3, 5, 6), draw(4, 3, 3, 3), draw(4)],
        {"activation": "HardSigmoid", "activation_params": [0.3, 0.4]},
    ),
    "fused product": (
        "FusedGemm",
        [draw(3, 8), draw(4, 8), draw(4)],
        {"transB": 1, "alpha": 0.5, "activation": "LeakyRelu", "activation_alpha": 0.2},
    ),
    "skip": ("SkipLayerNormalization", [X, draw(2, 3, 8), *draw(3, 8)], {"epsilon": 1e-5}),
    "simple skip": (
        "SkipSimplifiedLayerNormalization",
        [X, draw(2, 3, 8), draw(8)],
        {"epsilon": 1e-5},
    ),
    "masked attention": (
        "Attention",
        [X, draw(8, 24), draw(24), np.array([[1, 1, 0], [1, 1, 1]], np.int32)],
        {"num_heads": 2},
    ),
    "causal attention": (
        "Attention",
        [X, draw(8, 24), draw(24)],
        {"num_heads": 2, "unidirectional": 1},
    ),
    "rotary": (
        "RotaryEmbedding",
        [draw(2, 2, 3, 8), np.array([[0, 1, 2], [3, 4, 5]]), draw(16, 4), draw(16, 4)],
        {},
    ),
    "rotary of neighbors": (
        "RotaryEmbedding",
        [draw(2, 2, 3, 8), np.array([1]), draw(16, 4), draw(16, 4)],
        {"interleaved": 1},
    ),
    "four bits": (
        "MatMulNBits",
        [draw(2, 3, 32), bytes_(8, 2, 8), NARROW, bytes_(8, 1)],
        {"K": 32, "N": 8, "bits": 4, "block_size": 16},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_fused_operator_matches_onnx_runtime(name: str) -> None:
    op_type, arrays, attrs = CASES[name]
    given = {f"x{i}": array for i, array in enumerate(arrays)}
    is_packed = op_type == "MatMulNBits"
    weights = {k: v for k, v in given.items() if is_packed and k != "x0"}
    fed = {k: v for k, v in given.items() if k not in weights}
    model = make_model(
        [node(op_type, list(given), ["out"], domain="com.microsoft", **attrs)],
        [tensor(k, v.shape, helper.np_dtype_to_tensor_dtype(v.dtype)) for k, v in fed.items()],
        [tensor("out", None, TensorProto.FLOAT)],
        weights,
        domains={"com.microsoft": 1},
        ir_version=10,
    )
    session = onnxruntime.InferenceSession(model.SerializeToString())
    expected = session.run(None, fed)[0]
    np.testing.assert_allclose(opwright_onnx.load(model)(fed)[0], expected, rtol=1e-5, atol=2e-6)


def test_the_error_for_an_operator_of_one_processor_names_the_setting_that_avoids_it() -> None:
    nodes = [node("Conv", ["x", "w"], ["y"], domain="com.microsoft.nchwc")]
    inputs = [tensor("x", [1, 8, 3, 3]), tensor("w", [8, 8, 1, 1])]
    model = make_model(nodes, inputs, [tensor("y", None)], domains={"com.microsoft.nchwc": 1})
    message = "got 'Conv' of domain 'com.microsoft.nchwc'; optimize with ORT_ENABLE_EXTENDED"
    with pytest.raises(UnsupportedError, match=message):
        opwright_onnx.load(model)
