"""The MLP, an LSTM and the image networks as ONNX models."""

from __future__ import annotations

from typing import Any

import numpy as np

from networks.images import CLASSES, EPSILON, Conv, ImageNetwork
from networks.mlp import SIZES, make_parameters


def make_mlp() -> bytes:
    """Return Gemm, Sigmoid and Softmax nodes, for one image."""
    from onnx import TensorProto, helper

    from peers import make_model

    parameters = make_parameters()
    constants, nodes, h = {}, [], "x"
    for index in range(3):
        w, b, out = f"w{index}", f"b{index}", f"h{index}"
        constants[w], constants[b] = parameters[2 * index], parameters[2 * index + 1]
        nodes.append(helper.make_node("Gemm", [h, w, b], [f"{out}/linear"]))
        kind = "Sigmoid" if index < 2 else "Softmax"
        nodes.append(helper.make_node(kind, [f"{out}/linear"], [out]))
        h = out
    shapes = {"x": [1, SIZES[0]]}, {h: [1, SIZES[-1]]}
    return make_model(nodes, *shapes, constants, TensorProto.FLOAT)


LSTM_SHAPE = (16, 1, 64)
"""Steps, batch and width."""


def make_lstm() -> bytes:
    """Return a one-layer LSTM, as wide as its input, that returns its last state."""
    from onnx import TensorProto, helper

    from peers import make_model

    steps, batch, width = LSTM_SHAPE
    rng, scale = np.random.default_rng(28), np.float32(width**-0.5)
    shapes = {"w": [1, 4 * width, width], "r": [1, 4 * width, width], "b": [1, 8 * width]}
    constants = {
        name: rng.standard_normal(shape, dtype="float32") * scale for name, shape in shapes.items()
    }
    node = helper.make_node("LSTM", ["x", "w", "r", "b"], ["", "last"], hidden_size=width)
    given, made = {"x": [steps, batch, width]}, {"last": [1, batch, width]}
    return make_model([node], given, made, constants, TensorProto.FLOAT)


def make_image_network(network: ImageNetwork) -> bytes:
    """Return Conv, BatchNormalization, Relu, Clip and Add nodes, for one image of 224×224."""
    from onnx import TensorProto, helper

    from peers import make_model

    values, nodes = network.make_parameters(), []
    values |= {"zero": np.array(0, "float32"), "six": np.array(6, "float32")}

    def add(kind: str, *inputs: str, **attributes: Any) -> str:
        out = f"h{len(nodes)}"
        nodes.append(helper.make_node(kind, list(inputs), [out], **attributes))
        return out

    def activate(x: str, activation: str) -> str:
        if activation == "relu6":
            return add("Clip", x, "zero", "six")
        return add("Relu", x) if activation else x

    def conv_bn(x: str, conv: Conv) -> str:
        h = add(
            "Conv", x, f"{conv.name}.weight", kernel_shape=[conv.kernel] * 2,
            strides=[conv.stride] * 2, pads=[conv.padding] * 4, group=conv.groups,
        )  # fmt: skip
        states = [f"{conv.name}.{key}" for key in ("scale", "bias", "mean", "variance")]
        return activate(add("BatchNormalization", h, *states, epsilon=EPSILON), conv.activation)

    h = conv_bn("x", network.stem)
    if network.pools:
        h = add("MaxPool", h, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for block in network.blocks:
        short = conv_bn(h, block.shortcut) if block.shortcut else h
        for conv in block.path:
            h = conv_bn(h, conv)
        h = activate(add("Add", h, short) if block.adds else h, block.activation)
    h = conv_bn(h, network.head) if network.head else h
    h = add("Gemm", add("Flatten", add("GlobalAveragePool", h)), "fc.weight", "fc.bias")
    shapes = {"x": [1, 3, 224, 224]}, {h: [1, CLASSES]}
    return make_model(nodes, *shapes, values, TensorProto.FLOAT)
