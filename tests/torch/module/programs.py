"""Programs for module tests, and the same models in PyTorch."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

import opwright as ow
import opwright_nn


def classifier(p: float = 0.0) -> tuple[opwright_nn.Model, ow.Variable, ow.Variable]:
    """Return an image classifier, its scores, and its loss."""
    model = opwright_nn.Model()
    pixels = model.input("pixels", [None, 1, 6, 6])
    label = model.input("label", [None, 1], dtype="int64")
    hidden = model.conv2d(pixels, filters=4, kernel=3, paddings="same")
    hidden = model.dropout(model.relu(model.batch_norm(hidden)), p)
    scores = model.fc_layer(model.flatten(hidden), size=3)
    loss = model.mean(model.softmax_with_cross_entropy(scores, label))
    model.initialize_parameters()
    return model, scores, loss


class Twin(nn.Module):
    """The same classifier in PyTorch, with copies of the parameters of a module."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.head = nn.Linear(144, 3)
        given = dict(module.state_dict())
        self.norm.momentum = 0.1
        mine = {
            "conv.weight": given["conv2d_0_w_param"],
            "conv.bias": given["conv2d_0_b_param"],
            "norm.weight": given["batch_norm_0_w_param"],
            "norm.bias": given["batch_norm_0_b_param"],
            "norm.running_mean": given["batch_norm_0_mean"],
            "norm.running_var": given["batch_norm_0_variance"],
            "norm.num_batches_tracked": torch.tensor(0),
            "head.weight": given["fc_0_w_param"].T,
            "head.bias": given["fc_0_b_param"],
        }
        self.load_state_dict(mine)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return scores."""
        return self.head(self.norm(self.conv(pixels)).relu().flatten(1))

    def loss(self, pixels: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        """Return the loss."""
        return functional.cross_entropy(self(pixels), label.flatten())


def images(n: int = 5) -> torch.Tensor:
    """Return images."""
    return torch.randn(n, 1, 6, 6, generator=torch.Generator().manual_seed(n))


def labels(n: int = 5) -> torch.Tensor:
    """Return labels."""
    return torch.arange(n).reshape(n, 1) % 3
