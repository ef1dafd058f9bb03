"""ONNX files are read without onnx, and their large weights without protobuf."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from small_models import make_model, make_perceptron, node, tensor

import opwright_onnx
from opwright_onnx.translate.weights import split_weights

LOADED_ALONE = """
import sys
import opwright_onnx
loaded = opwright_onnx.load(sys.argv[1])
loaded([[0.0, 1.0, 2.0, 3.0]])
slow = {"onnx", "google.protobuf"} & sys.modules.keys()
assert not slow, f"they take longer to import than the load: {slow}"
import onnx
opwright_onnx.load(onnx.load(sys.argv[1]))
"""


def test_a_model_saved_with_onnx_is_loaded_without_onnx_or_protobuf(tmp_path: Path) -> None:
    onnx.save(make_perceptron()[0], tmp_path / "model.onnx")
    command = [sys.executable, "-c", LOADED_ALONE, str(tmp_path / "model.onnx")]
    env = {**os.environ, "OPWRIGHT_KEEP_PLANS": "0"}  # stored models are written by protobuf
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr


def make_product() -> tuple[onnx.ModelProto, Any]:
    weight = np.random.default_rng(3).standard_normal((64, 48)).astype(np.float32)
    nodes = [node("MatMul", ["x", "w"], ["y"])]
    inputs, outputs = [tensor("x", ["n", 64])], [tensor("y", ["n", 48])]
    return make_model(nodes, inputs, outputs, {"w": weight}), weight


def test_large_weights_are_read_from_a_file_separately_from_the_message(tmp_path: Path) -> None:
    model, weight = make_product()
    rest, found = split_weights(memoryview(model.SerializeToString())) or (b"", {})
    assert len(rest) < 400
    np.testing.assert_array_equal(np.frombuffer(found[0], np.float32), weight.reshape(-1))
    onnx.save(model, tmp_path / "model.onnx")
    loaded = opwright_onnx.load(tmp_path / "model.onnx")
    x = np.ones((2, 64), np.float32)
    np.testing.assert_allclose(loaded(x)[0], x @ weight, rtol=1e-5, atol=1e-5)


def test_weights_stored_in_several_fields_are_read_by_protobuf() -> None:
    model, weight = make_product()
    whole = model.SerializeToString()
    twice = onnx.TensorProto(raw_data=(weight * 2).tobytes()).SerializeToString()
    (initializer,) = model.graph.initializer
    content = initializer.SerializeToString() + twice  # the last bytes of a field count
    second = onnx.ModelProto(graph=onnx.GraphProto(name="second")).SerializeToString()
    for other in (whole + second, whole[:-3], whole + b"\x0b"):
        assert split_weights(memoryview(other)) is None
    del model.graph.initializer[:]
    head = bytes([5 << 3 | 2]) + _varint(len(content))
    body = model.graph.SerializeToString() + head + content
    model.ClearField("graph")
    data = model.SerializeToString() + bytes([7 << 3 | 2]) + _varint(len(body)) + body
    assert split_weights(memoryview(data)) is None
    x = np.ones((1, 64), np.float32)
    np.testing.assert_allclose(opwright_onnx.load(data)(x)[0], x @ weight * 2, rtol=1e-5, atol=1e-5)


def _varint(number: int) -> bytes:
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])
