"""Quantized operators in the domain com.microsoft match ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper
from small_models import make_model, node, tensor

import opwright_onnx

RNG = np.random.default_rng(0)


def draw(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def codes(*shape: int, dtype: str = "uint8") -> Any:
    low = -128 if dtype == "int8" else 0
    return RNG.integers(low, low + 256, shape).astype(dtype)


def real(value: float) -> Any:
    return np.array(value, np.float32)


def zero(value: int, dtype: str = "uint8") -> Any:
    return np.array(value, dtype)


A = [codes(2, 3, 4, 6), real(0.02), zero(120)]
B = [codes(3, 1, 6), real(0.03), zero(131)]
OUT = [real(0.05), zero(99)]
PAIRS = [codes(4, 6), real(0.02), zero(120), codes(5, 6, dtype="int8"), real(0.03), zero(3, "int8")]
BIAS = RNG.integers(-900, 900, 5).astype(np.int32)
STATES = [
    codes(1, 4, 12, dtype="int8"),
    codes(1, 3, 12, dtype="int8"),
    0.1 * draw(1, 24),
]
U8, FLOAT = TensorProto.UINT8, TensorProto.FLOAT
CASES: dict[str, tuple[str, list[Any], dict[str, Any], int]] = {
    "sum": ("QLinearAdd", [*A, *B, *OUT], {}, U8),
    "product": ("QLinearMul", [*A, *B, *OUT], {}, U8),
    "sigmoid": ("QLinearSigmoid", [*A, real(1 / 256), zero(0)], {}, U8),
    "leaky relu": ("QLinearLeakyRelu", [*A, *OUT], {"alpha": 0.3}, U8),
    "softmax": ("QLinearSoftmax", [*A, real(1 / 256), zero(0)], {"axis": -1, "opset": 13}, U8),
    "concatenation": ("QLinearConcat", [*OUT, *A, *A], {"axis": 1}, U8),
    "pool": (
        "QLinearAveragePool",
        [*A, *OUT],
        {"kernel_shape": [2, 3], "strides": [1, 2], "pads": [0, 1, 1, 0]},
        U8,
    ),
    "whole pool": ("QLinearGlobalAveragePool", [*A, *OUT], {}, U8),
    "choice": (
        "QLinearWhere",
        [np.array([True, False, True, True, False, False]), *A, *B, *OUT],
        {},
        U8,
    ),
    "layer": ("QGemm", [*PAIRS, BIAS, *OUT], {"transB": 1}, U8),
    "layer to floats": ("QGemm", [*PAIRS, BIAS], {"transB": 1, "alpha": 0.5}, FLOAT),
    "product to floats": (
        "MatMulIntegerToFloat",
        [codes(4, 6), codes(6, 5, dtype="int8"), real(0.02), real(0.03), zero(120), None, draw(5)],
        {},
        FLOAT,
    ),
    "product by column": (
        "MatMulIntegerToFloat",
        [codes(4, 6), codes(6, 5), real(0.02), np.abs(draw(5)), zero(120), codes(5)],
        {},
        FLOAT,
    ),
    "product of quantized floats": (
        "DynamicQuantizeMatMul",
        [draw(4, 6), codes(6, 5), real(0.03), zero(131), draw(5)],
        {},
        FLOAT,
    ),
    "codes": (
        "QuantizeLinear",
        [draw(3, 4), real(0.02), zero(300, "uint16")],
        {},
        TensorProto.UINT16,
    ),
    "numbers": ("DequantizeLinear", [codes(3, 4), np.abs(draw(3)), codes(3)], {"axis": 0}, FLOAT),
    "attention": (
        "QAttention",
        [
            codes(2, 3, 8),
            codes(8, 24, dtype="int8"),
            draw(24),
            real(0.02),
            real(0.005),
            np.array([[1, 1, 0], [1, 1, 1]], np.int32),
            zero(120),
            zero(3, "int8"),
        ],
        {"num_heads": 2},
        FLOAT,
    ),
    "eight bits": (
        "MatMulNBits",
        [draw(2, 3, 32), codes(8, 2, 16), np.abs(draw(16)), codes(8, 2)],
        {"K": 32, "N": 8, "bits": 8, "block_size": 16},
        FLOAT,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_quantized_operator_matches_onnx_runtime(name: str) -> None:
    op_type, arrays, attrs, kind = CASES[name]
    names = ["" if array is None else f"x{i}" for i, array in enumerate(arrays)]
    given = {key: array for key, array in zip(names, arrays, strict=True) if key}
    is_fed = {k: i == 0 or v.ndim > 2 for i, (k, v) in enumerate(given.items())}
    if op_type.startswith(("QAttention", "MatMulNBits")):
        is_fed = {key: key == "x0" for key in given}
    fed = {key: array for key, array in given.items() if is_fed[key]}
    model = make_model(
        [node(op_type, names, ["out"], domain="com.microsoft", **attrs)],
        [tensor(k, v.shape, helper.np_dtype_to_tensor_dtype(v.dtype)) for k, v in fed.items()],
        [tensor("out", None, kind)],
        {key: array for key, array in given.items() if not is_fed[key]},
        domains={"com.microsoft": 1},
        ir_version=10,
    )
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, fed)
    (result,) = opwright_onnx.load(model)(fed)
    assert result.dtype == expected.dtype
    if kind == FLOAT:
        scale = np.abs(expected).max()
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5 * scale)
    else:  # float32 sums are rounded in a different order
        assert np.abs(result.astype(int) - expected.astype(int)).max() <= 1


def test_sums_of_many_products_of_bytes_are_exact() -> None:
    weight = codes(5000, 7)
    x = codes(3, 5000)
    attrs: dict[str, Any] = {"kernel_shape": [1, 1]}
    nodes = [
        node("MatMulInteger", ["x", "w", "x0", "w0"], ["product"]),
        node("Reshape", ["x", "shape"], ["image"]),
        node("ConvInteger", ["image", "kernel", "x0", "k0"], ["y"], **attrs),
    ]
    weights = {
        "w": weight,
        "kernel": np.ascontiguousarray(weight.T).reshape(7, 5000, 1, 1),
        "x0": zero(7),
        "w0": codes(7),
        "k0": zero(131),
        "shape": np.array([3, 5000, 1, 1]),
    }
    outputs = [tensor(name, None, TensorProto.INT32) for name in ("product", "y")]
    model = make_model(nodes, [tensor("x", x.shape, U8)], outputs, weights)
    product, y = opwright_onnx.load(model)({"x": x})
    wide = x.astype(int) - 7
    np.testing.assert_array_equal(product, wide @ (weight.astype(int) - weights["w0"].astype(int)))
    np.testing.assert_array_equal(y[:, :, 0, 0], wide @ (weight.astype(int) - 131))
    assert product.dtype == y.dtype == np.int32


def test_a_bias_of_32_bits_is_dequantized_by_column() -> None:
    bias, scale = np.array([2**24 + 1, -5, 7], np.int32), np.array([0.5, 2, 0.25], np.float32)
    nodes = [
        node("DequantizeLinear", ["bias", "scale"], ["real"], axis=0),
        node("Add", ["x", "real"], ["y"]),
    ]
    model = make_model(
        nodes, [tensor("x", [2, 3])], [tensor("y", None)], {"bias": bias, "scale": scale}
    )
    (y,) = opwright_onnx.load(model)(np.zeros((2, 3), np.float32))
    np.testing.assert_array_equal(y, np.tile((bias * scale).astype(np.float32), (2, 1)))
