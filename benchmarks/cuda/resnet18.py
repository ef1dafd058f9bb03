"""One training step of ResNet-18 with momentum, batch 64, 224×224, with and without TF32."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from contest import Goal, Timed, Workload
from gpu import (
    HOWS,
    OurProgram,
    choose,
    convolve_by,
    open_opwright,
    open_torch,
    time_torch,
    time_training,
)
from networks.resnet18 import BLOCKS, CLASSES, EPSILON, STEM, Conv, make_parameters

BATCH, SIZE = choose((64, 224), (2, 32))
LEARNING_RATE, MOMENTUM = 0.01, 0.9
STEPS_TO_COMPARE = choose(3, 2)


def make_batch() -> tuple[np.ndarray, np.ndarray]:
    """Return images float32 [64, 3, 224, 224] and labels int64 [64, 1]."""
    rng = np.random.default_rng(29)
    images = rng.standard_normal((BATCH, 3, SIZE, SIZE), dtype="float32")
    return images, rng.integers(0, CLASSES, (BATCH, 1))


def build_opwright(layers: Any, x: Any) -> tuple[Any, dict[str, np.ndarray]]:
    """Append the network; return its logits, and the parameters by name."""
    import opwright as ow

    values = make_parameters()
    initial = {"fc_w_param": values["fc.weight"], "fc_b_param": values["fc.bias"]}

    def conv_bn(x: Any, conv: Conv, activation: str | None) -> Any:
        h = layers.conv2d(
            x, conv.filters, conv.kernel, strides=conv.stride, paddings=conv.padding, bias=False,
            name=conv.name,
        )  # fmt: skip
        normal = f"{conv.name}_bn"
        initial[f"{conv.name}_w_param"] = values[f"{conv.name}.weight"]
        initial[f"{normal}_w_param"] = values[f"{conv.name}.scale"]
        initial[f"{normal}_b_param"] = values[f"{conv.name}.bias"]
        return layers.batch_norm(h, epsilon=EPSILON, activation=activation, name=normal)

    h = layers.max_pool2d(conv_bn(x, STEM, "relu"), kernel=3, strides=2, paddings=1)
    for block in BLOCKS:
        short = conv_bn(h, block.shortcut, None) if block.shortcut else h
        inner = conv_bn(conv_bn(h, block.first, "relu"), block.second, None)
        h = layers.relu(ow.ops.add(inner, short))
    h = layers.flatten(layers.adaptive_avg_pool2d(h, output_size=1))
    return layers.fc(h, size=CLASSES, name="fc"), initial


def opwright(library: str) -> Timed:
    """A compiled program of layers, with the convolutions of a library."""
    open_opwright()
    convolve_by(library)
    import opwright as ow
    import opwright_nn as nn
    from opwright_nn import layers

    with ow.program_guard(ow.Program(), ow.Program()) as (main, startup):
        x = layers.data("x", shape=[None, 3, SIZE, SIZE])
        y = layers.data("y", shape=[None, 1], dtype="int64")
        logits, initial = build_opwright(layers, x)
        loss = layers.mean(layers.softmax_with_cross_entropy(logits, y))
        nn.optimizer.Momentum(LEARNING_RATE, MOMENTUM).minimize(loss)
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    for name, value in initial.items():
        scope.find_var(name).set(value)
    images, labels = make_batch()
    zero = np.zeros(loss.shape, "float32")
    program = OurProgram(
        main.global_block(),
        scope,
        {"x": images, "y": labels},
        {loss.name: zero},
        tf32=library == "cudnn_tf32",
    )
    return time_training(program, STEPS_TO_COMPARE)


def torch_module() -> Any:
    """Return the network as a torch.nn.Module in training mode."""
    import torch
    from torch import nn
    from torch.nn import functional as F  # noqa: N812

    values = {name: torch.from_numpy(value) for name, value in make_parameters().items()}

    class ConvBn(nn.Sequential):
        def __init__(self, conv: Conv) -> None:
            super().__init__(
                nn.Conv2d(
                    conv.channels, conv.filters, conv.kernel, conv.stride, conv.padding, bias=False
                ),
                nn.BatchNorm2d(conv.filters, eps=EPSILON),
            )
            of = {key: values[f"{conv.name}.{key}"] for key in ("weight", "scale", "bias")}
            self[0].weight.data = of["weight"]
            self[1].weight.data, self[1].bias.data = of["scale"], of["bias"]

    class Residual(nn.Module):
        def __init__(self, block: Any) -> None:
            super().__init__()
            self.first, self.second = ConvBn(block.first), ConvBn(block.second)
            self.shortcut = ConvBn(block.shortcut) if block.shortcut else nn.Identity()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.relu(self.second(F.relu(self.first(x))) + self.shortcut(x))

    head = nn.Linear(512, CLASSES)
    head.weight.data, head.bias.data = values["fc.weight"].T.contiguous(), values["fc.bias"]
    stem = [ConvBn(STEM), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    body = [Residual(block) for block in BLOCKS]
    return nn.Sequential(*stem, *body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), head).train()


def torch(how: str, channels_last: bool = True, tf32: bool = False) -> Timed:
    """The same by PyTorch, with its fused optimizer."""
    torch, device = open_torch(tf32)
    from torch.nn import functional as F  # noqa: N812

    layout = torch.channels_last if channels_last else torch.contiguous_format
    images, labels = make_batch()
    module = torch_module().to(device, memory_format=layout)
    x = torch.from_numpy(images).to(device, memory_format=layout)
    y = torch.from_numpy(labels[:, 0]).to(device)
    parameters = list(module.parameters())
    optimizer = torch.optim.SGD(parameters, lr=LEARNING_RATE, momentum=MOMENTUM, fused=True)

    def loss_of() -> Any:
        return F.cross_entropy(module(x), y)

    return time_torch(how, parameters, optimizer, loss_of, STEPS_TO_COMPARE)


WORKLOADS = [
    Workload(
        "resnet18-train-64",
        "ResNet-18 training step, momentum, batch 64, 224×224",
        "ms",
        {
            "opwright": partial(opwright, "cudnn"),
            "opwright, own convolutions": partial(opwright, "native"),
            **{f"torch {how}": partial(torch, how) for how in HOWS},
            "torch graph, contiguous": partial(torch, "graph", channels_last=False),
        },
        {"opwright": [Goal(ratio=1.0, of="torch")]},
        # Batch normalisation lets roundings grow; over the two values of a channel that are left of
        # the small images, PyTorch's own two layouts are 0.07 apart.
        tolerance=choose(1e-2, 0.2),
    ),
    Workload(
        "resnet18-train-64-tf32",
        "ResNet-18 training step, momentum, batch 64, 224×224, TF32",
        "ms",
        {
            "opwright": partial(opwright, "cudnn_tf32"),
            **{f"torch {how}": partial(torch, how, tf32=True) for how in HOWS},
        },
        {"opwright": [Goal(ratio=1.0, of="torch")]},
        tolerance=choose(3e-2, 0.2),
    ),
]
