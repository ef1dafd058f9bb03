"""Exports PyTorch models, and models from ONNX's light model zoo, to ONNX files.

An interpreter with the peers runs ``exported.py NAME FILE``, since the processes of opwright
implementations must not import PyTorch. Weights are random, and the batch size is one.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ZOO = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "vgg19",
    "zfnet512",
)
VISION = {
    "convnext_tiny": 224,
    "densenet121": 224,
    "efficientnet_b0": 224,
    "inception_v3": 299,
    "mobilenet_v2": 224,
    "mobilenet_v3_large": 224,
    "resnet18": 224,
    "resnet50": 224,
    "shufflenet_v2_x1_0": 224,
    "squeezenet1_1": 224,
    "vit_b_16": 224,
}
"""The image size for torchvision."""


def write_zoo(name: str, path: Path) -> None:
    """Write a light model, with its constant weights replaced by random weights."""
    import onnx
    from onnx import numpy_helper

    folder = Path(onnx.__file__).parent / "backend/test/data/light"
    model = onnx.load(folder / f"light_{name}.onnx")
    graph, rng = model.graph, np.random.default_rng(28)
    shapes = {tensor.name: tensor for tensor in graph.initializer}
    constants = [node for node in graph.node if node.op_type == "ConstantOfShape"]
    for node in constants:
        shape = numpy_helper.to_array(shapes[node.input[0]])
        (output,) = node.output
        fan_in = max(1, int(np.prod(shape[1:])))
        array = rng.standard_normal(shape, dtype="float32") * np.float32((2 / fan_in) ** 0.5)
        # The scale and variance of a normalization are vectors and must not be negative.
        graph.initializer.append(
            numpy_helper.from_array(np.abs(array) if len(shape) == 1 else array, output)
        )
        graph.node.remove(node)
    read = {name for node in graph.node for name in node.input}
    for tensor in [tensor for tensor in graph.initializer if tensor.name not in read]:
        graph.initializer.remove(tensor)
    written = {tensor.name for tensor in graph.initializer} | read
    for entry in [entry for entry in graph.input if entry.name not in written]:
        graph.input.remove(entry)
    onnx.save(model, path)


def make_vision(name: str) -> tuple[Any, tuple[Any, ...]]:
    """Return a torchvision model and an image."""
    import torch
    from torch.library import Library

    schemas = Library("torchvision", "FRAGMENT")  # CUDA builds lack these operators without CUDA
    for operator in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, operator):
            schemas.define(f"{operator}(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    import torchvision

    model = torchvision.models.get_model(name, weights=None)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0.0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    return model, (torch.randn(1, 3, VISION[name], VISION[name]),)


def make_mlp() -> tuple[Any, tuple[Any, ...]]:
    """Return an MLP, 784-1024-1024-10."""
    import torch
    from torch import nn

    linear = [nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU()]
    return nn.Sequential(*linear, nn.Linear(1024, 10), nn.Softmax(-1)), (torch.randn(1, 784),)


def make_recurrent(kind: str, **options: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return a recurrent model with two layers, 256 wide, for 64 steps."""
    import torch
    from torch import nn

    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = getattr(nn, kind)(256, 256, 2, batch_first=True, **options)

        def forward(self, x: Any) -> Any:
            return self.layers(x)[0]

    return Recurrent(), (torch.randn(1, 64, 256),)


def make_encoder() -> tuple[Any, tuple[Any, ...]]:
    """Return four layers of nn.TransformerEncoder, 256 wide, for 128 tokens."""
    import torch
    from torch import nn

    layer = nn.TransformerEncoderLayer(256, 4, 1024, activation="gelu", batch_first=True)
    torch.backends.mha.set_fastpath_enabled(False)
    encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
    return encoder, (torch.randn(1, 128, 256),)


def make_decoder_step() -> tuple[Any, tuple[Any, ...]]:
    """Return four blocks, 256 wide, for one token after 127 tokens in the cache."""
    import torch
    from torch import nn
    from torch.nn import functional

    width, heads, blocks, length = 256, 4, 4, 127

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any, keys: Any, values: Any) -> Any:
            parts = self.qkv(self.norm1(x)).split(width, dim=2)
            q, k, v = (p.view(1, 1, heads, width // heads).transpose(1, 2) for p in parts)
            keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
            mixed = functional.scaled_dot_product_attention(q, keys, values)
            x = x + self.out(mixed.transpose(1, 2).reshape(1, 1, width))
            return x + self.down(functional.gelu(self.up(self.norm2(x)))), keys, values

    class Step(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(Block() for _ in range(blocks))
            self.tokens, self.scores = nn.Embedding(1000, width), nn.Linear(width, 1000)

        def forward(self, token: Any, *cache: Any) -> Any:
            x, kept = self.tokens(token), []
            for index, block in enumerate(self.blocks):
                x, keys, values = block(x, cache[2 * index], cache[2 * index + 1])
                kept += [keys, values]
            return (self.scores(x), *kept)

    cache = [torch.randn(1, heads, length, width // heads) for _ in range(2 * blocks)]
    return Step(), (torch.randint(0, 1000, (1, 1)), *cache)


MODELS: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {
    "mlp": make_mlp,
    "lstm": partial(make_recurrent, "LSTM"),
    "lstm_both_ways": partial(make_recurrent, "LSTM", bidirectional=True),
    "gru": partial(make_recurrent, "GRU"),
    "encoder": make_encoder,
    "decoder_step": make_decoder_step,
    **{name: partial(make_vision, name) for name in VISION},
}
NAMES = (*MODELS, *(f"zoo_{name}" for name in ZOO))


def write_model(name: str, path: Path, **options: Any) -> None:
    """Write one of NAMES with the tracing exporter."""
    if name.startswith("zoo_"):
        write_zoo(name.removeprefix("zoo_"), path)
        return
    import torch

    torch.manual_seed(28)
    model, inputs = MODELS[name]()
    names = [f"x{i}" for i in range(len(inputs))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {"dynamo": False, "opset_version": 17, **options}
        torch.onnx.export(model.eval(), inputs, str(path), input_names=names, **options)


if __name__ == "__main__":
    write_model(sys.argv[1], Path(sys.argv[2]))
