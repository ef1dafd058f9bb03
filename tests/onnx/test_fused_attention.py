"""The attention operators in the domain com.microsoft match ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper
from small_models import make_model, node, tensor

import opwright_onnx

RNG = np.random.default_rng(0)
FLOAT, INT32 = TensorProto.FLOAT, TensorProto.INT32


def draw(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def ints(value: Any) -> Any:
    return np.array(value, np.int32)


X = draw(2, 3, 8)
PROJECTED = [X, draw(8, 24), draw(24)]
QKV = [draw(2, 3, 8), draw(2, 5, 8), draw(2, 5, 12)]
MASK = ints([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
TABLES = [draw(16, 8), draw(16, 8)]
GROUPS = {"num_heads": 4, "kv_num_heads": 2}
OWN = [draw(2, 3, 64), draw(2, 3, 32), draw(2, 3, 32)]
NONE = [np.zeros((2, 2, 0, 16), np.float32)] * 2
ONE = [draw(2, 1, 64), draw(2, 1, 32), draw(2, 1, 32)]
PAST = [draw(2, 2, 4, 16), draw(2, 2, 4, 16)]
IDS = ints([[1, 4, 2], [0, 3, 3]])
EMBEDDINGS = [draw(5, 8), draw(6, 8), draw(2, 8), draw(8), draw(8)]
CASES: dict[str, tuple[str, list[Any], dict[str, Any], list[int]]] = {
    "past": (
        "Attention",
        [*PROJECTED, ints([[1, 1, 1, 0, 1], [1] * 5]), draw(2, 2, 2, 2, 4)],
        {"num_heads": 2, "unidirectional": 1},
        [FLOAT, FLOAT],
    ),
    "present": ("Attention", [*PROJECTED], {"num_heads": 2}, [FLOAT, FLOAT]),
    "wide values": (
        "Attention",
        [X, draw(8, 28), draw(28)],
        {"num_heads": 2, "qkv_hidden_sizes": [8, 8, 12]},
        [FLOAT],
    ),
    "ends": ("Attention", [*PROJECTED, ints([2, 3])], {"num_heads": 2}, [FLOAT]),
    "ends and starts": ("Attention", [*PROJECTED, ints([2, 3, 0, 1])], {"num_heads": 2}, [FLOAT]),
    "query masks": (
        "Attention",
        [*PROJECTED, ints(np.tril(np.ones((2, 3, 3)))), None, draw(2, 2, 3, 3)],
        {"num_heads": 2, "scale": 0.3},
        [FLOAT],
    ),
    "heads": ("MultiHeadAttention", QKV, {"num_heads": 2}, [FLOAT]),
    "heads with a bias and a mask": (
        "MultiHeadAttention",
        [*QKV, draw(28), MASK, draw(1, 2, 3, 5)],
        {"num_heads": 2, "scale": 0.3},
        [FLOAT],
    ),
    "heads of a decoder": (
        "MultiHeadAttention",
        [X, draw(2, 3, 8), draw(2, 3, 8), None, None, None, *(draw(2, 2, 4, 4) for _ in range(2))],
        {"num_heads": 2, "unidirectional": 1},
        [FLOAT, FLOAT, FLOAT],
    ),
    "heads of another text": (
        "MultiHeadAttention",
        [X, draw(2, 2, 5, 4), draw(2, 2, 5, 4)],
        {"num_heads": 2},
        [FLOAT],
    ),
    "groups": ("GroupQueryAttention", [*OWN, *NONE, ints([2, 2]), ints(3)], GROUPS, [FLOAT] * 3),
    "rotated groups": (
        "GroupQueryAttention",
        [*OWN, *NONE, ints([2, 2]), ints(3), *TABLES],
        {**GROUPS, "do_rotary": 1, "softcap": 3.0, "scale": 0.4},
        [FLOAT] * 3,
    ),
    "next token": (
        "GroupQueryAttention",
        [*ONE, *PAST, ints([4, 4]), ints(5), *TABLES],
        {**GROUPS, "do_rotary": 1, "rotary_interleaved": 1, "local_window_size": 3},
        [FLOAT] * 3,
    ),
    "packed groups": (
        "GroupQueryAttention",
        [draw(2, 1, 128), None, None, *PAST, ints([4, 4]), ints(5)],
        GROUPS,
        [FLOAT] * 3,
    ),
    "rotated columns": (
        "RotaryEmbedding",
        [draw(2, 3, 16), np.array([[0, 1, 2], [3, 4, 5]]), draw(16, 4), draw(16, 4)],
        {},
        [FLOAT],
    ),
    "some rotated columns": (
        "RotaryEmbedding",
        [draw(2, 3, 24), np.array([[0, 1, 2], [3, 4, 5]]), draw(16, 4), draw(16, 4)],
        {"rotary_embedding_dim": 8, "num_heads": 2},
        [FLOAT],
    ),
    "embeddings": (
        "EmbedLayerNormalization",
        [IDS, ints([[0, 1, 1], [1, 0, 0]]), *EMBEDDINGS, ints([[1, 1, 0], [1, 1, 1]])],
        {"epsilon": 1e-5},
        [FLOAT, INT32],
    ),
    "embeddings without segments": (
        "EmbedLayerNormalization",
        [IDS, None, *EMBEDDINGS[:2], None, *EMBEDDINGS[3:]],
        {"epsilon": 1e-5},
        [FLOAT, INT32],
    ),
}


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_an_attention_operator_matches_onnx_runtime(name: str, is_open: bool) -> None:
    op_type, arrays, attrs, kinds = CASES[name]
    names = ["" if array is None else f"x{i}" for i, array in enumerate(arrays)]
    fed = {key: array for key, array in zip(names, arrays, strict=True) if key}
    weights: dict[str, Any] = {}
    if op_type in ("Attention", "EmbedLayerNormalization", "RotaryEmbedding"):
        weights = {k: v for k, v in fed.items() if v.dtype == np.float32 and k != "x0"}
        weights = {k: v for k, v in weights.items() if v.ndim < 4}
        fed = {k: v for k, v in fed.items() if k not in weights}
    outputs = [f"out{i}" for i in range(len(kinds))]

    def size(array: Any, axis: int) -> int | None:
        is_length = axis == (2 if array.ndim == 4 else 1) and op_type != "RotaryEmbedding"
        return None if is_open and array.ndim > 2 and is_length else array.shape[axis]

    shapes = {k: [size(v, axis) for axis in range(v.ndim)] for k, v in fed.items()}
    model = make_model(
        [node(op_type, names, outputs, domain="com.microsoft", **attrs)],
        [tensor(k, shapes[k], helper.np_dtype_to_tensor_dtype(v.dtype)) for k, v in fed.items()],
        [tensor(*pair) for pair in zip(outputs, [None] * len(kinds), kinds)],
        weights,
        domains={"com.microsoft": 1},
        ir_version=10,
    )
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, fed)
    results = opwright_onnx.load(model)(fed)
    for result, other in zip(results, expected, strict=True):
        assert result.dtype == other.dtype
        np.testing.assert_allclose(result, other, rtol=1e-5, atol=2e-5)
