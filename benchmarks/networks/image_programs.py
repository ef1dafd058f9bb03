"""Image networks in opwright and in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

from networks.images import CLASSES, EPSILON, Block, Conv, ImageNetwork


def append_network(
    network: ImageNetwork, x: Any, *, training: bool
) -> tuple[Any, dict[str, np.ndarray]]:
    """Append a network to the default program; return its logits, and all parameters by name."""
    import opwright as ow
    from opwright_nn import layers

    values = network.make_parameters()
    initial = {"fc_w_param": values["fc.weight"], "fc_b_param": values["fc.bias"]}

    def conv_bn(x: Any, conv: Conv) -> Any:
        h = layers.conv2d(
            x, conv.filters, conv.kernel, strides=conv.stride, paddings=conv.padding,
            groups=conv.groups, bias=False, name=conv.name,
        )  # fmt: skip
        normal = f"{conv.name}_bn"
        initial[f"{conv.name}_w_param"] = values[f"{conv.name}.weight"]
        initial[f"{normal}_w_param"] = values[f"{conv.name}.scale"]
        initial[f"{normal}_b_param"] = values[f"{conv.name}.bias"]
        if not training:
            initial[f"{normal}_mean"] = values[f"{conv.name}.mean"]
            initial[f"{normal}_variance"] = values[f"{conv.name}.variance"]
        h = layers.batch_norm(h, epsilon=EPSILON, training=training, name=normal)
        return getattr(ow.ops, conv.activation)(h) if conv.activation else h

    h = conv_bn(x, network.stem)
    if network.pools:
        h = layers.max_pool2d(h, kernel=3, strides=2, paddings=1)
    for block in network.blocks:
        short = conv_bn(h, block.shortcut) if block.shortcut else h
        for conv in block.path:
            h = conv_bn(h, conv)
        if block.adds:
            h = ow.ops.add(h, short)
        h = layers.relu(h) if block.activation else h
    if network.head:
        h = conv_bn(h, network.head)
    h = layers.flatten(layers.adaptive_avg_pool2d(h, output_size=1))
    return layers.fc(h, size=CLASSES, name="fc"), initial


def make_torch_module(network: ImageNetwork, *, training: bool) -> Any:
    """Return a network as a torch.nn.Module."""
    import torch
    from torch import nn

    values = {name: torch.from_numpy(v) for name, v in network.make_parameters().items()}
    activations = {"": nn.Identity, "relu": nn.ReLU, "relu6": nn.ReLU6}

    def conv_bn(conv: Conv) -> nn.Sequential:
        image = nn.Conv2d(
            conv.channels, conv.filters, conv.kernel, conv.stride, conv.padding,
            groups=conv.groups, bias=False,
        )  # fmt: skip
        normal = nn.BatchNorm2d(conv.filters, eps=EPSILON)
        of = {key: values[f"{conv.name}.{key}"] for key in ("weight", "scale", "bias")}
        image.weight.data, normal.weight.data, normal.bias.data = of.values()
        if not training:
            normal.running_mean = values[f"{conv.name}.mean"]
            normal.running_var = values[f"{conv.name}.variance"]
        return nn.Sequential(image, normal, activations[conv.activation]())

    class Residual(nn.Module):
        def __init__(self, block: Block) -> None:
            super().__init__()
            self.path = nn.Sequential(*map(conv_bn, block.path))
            self.shortcut = conv_bn(block.shortcut) if block.shortcut else nn.Identity()
            self.activation = activations[block.activation]()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.activation(self.path(x) + self.shortcut(x))

    body: list[nn.Module] = [conv_bn(network.stem)]
    body += [nn.MaxPool2d(3, 2, 1)] if network.pools else []
    for block in network.blocks:
        body.append(Residual(block) if block.adds else nn.Sequential(*map(conv_bn, block.path)))
    body += [conv_bn(network.head)] if network.head else []
    head = nn.Linear(values["fc.weight"].shape[0], CLASSES)
    head.weight.data, head.bias.data = values["fc.weight"].T.contiguous(), values["fc.bias"]
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), head).train(training)
