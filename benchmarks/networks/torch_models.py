"""Typical PyTorch models, each with a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Recipe(NamedTuple):
    """A model with its inputs and labels for a training step and for inference."""

    title: str
    make: Callable[[], Any]
    batch: Callable[[bool], tuple[Any, Any]]  # takes whether the batch is for training


def make_mlp() -> Any:
    """Return an MLP, 784-512-256-10."""
    from torch import nn

    layers = [nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10)]
    return nn.Sequential(*layers)


def make_gpt(width: int = 128, blocks: int = 4, heads: int = 4, time: int = 128) -> Any:
    """Return a decoder for 256 characters."""
    import torch
    from torch import nn
    from torch.nn import functional

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            n, length, _ = x.shape
            parts = self.qkv(self.norm1(x)).split(width, dim=2)
            q, k, v = (p.view(n, length, heads, width // heads).transpose(1, 2) for p in parts)
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).contiguous().view(n, length, width))
            return x + self.down(functional.gelu(self.up(self.norm2(x))))

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.characters = nn.Embedding(256, width)
            self.positions = nn.Embedding(time, width)
            self.blocks = nn.Sequential(*(Block() for _ in range(blocks)))
            self.norm, self.scores = nn.LayerNorm(width), nn.Linear(width, 256, bias=False)

        def forward(self, x: Any) -> Any:
            places = torch.arange(x.shape[1], device=x.device)
            h = self.characters(x) + self.positions(places)
            return self.scores(self.norm(self.blocks(h)))

    return Decoder()


def make_resnet18() -> Any:
    """Return ResNet-18 for 1,000 classes."""
    from torch import nn

    def convolution(before: int, after: int, stride: int, kernel: int = 3) -> list[Any]:
        padding = kernel // 2
        conv = nn.Conv2d(before, after, kernel, stride, padding, bias=False)
        return [conv, nn.BatchNorm2d(after)]

    class Block(nn.Module):
        def __init__(self, before: int, after: int, stride: int) -> None:
            super().__init__()
            first = [*convolution(before, after, stride), nn.ReLU(inplace=True)]
            self.body = nn.Sequential(*first, *convolution(after, after, 1))
            short = convolution(before, after, stride, kernel=1) if before != after else []
            self.short, self.relu = nn.Sequential(*short), nn.ReLU(inplace=True)

        def forward(self, x: Any) -> Any:
            return self.relu(self.body(x) + self.short(x))

    stem = [*convolution(3, 64, 2, kernel=7), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    widths = [(64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)]
    blocks = [
        b for before, after, s in widths for b in (Block(before, after, s), Block(after, after, 1))
    ]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)]
    return nn.Sequential(*stem, *blocks, *head)


def make_mobilenet() -> Any:
    """Return MobileNet-v2 for 1,000 classes."""
    from torch import nn

    def convolution(before: int, after: int, kernel: int, stride: int, groups: int) -> list[Any]:
        conv = nn.Conv2d(before, after, kernel, stride, kernel // 2, groups=groups, bias=False)
        return [conv, nn.BatchNorm2d(after), nn.ReLU6(inplace=True)]

    class Block(nn.Module):
        def __init__(self, before: int, after: int, stride: int, factor: int) -> None:
            super().__init__()
            hidden = before * factor
            expand = convolution(before, hidden, 1, 1, 1) if factor != 1 else []
            depthwise = convolution(hidden, hidden, 3, stride, hidden)
            self.body = nn.Sequential(*expand, *depthwise, *convolution(hidden, after, 1, 1, 1)[:2])
            self.is_residual = stride == 1 and before == after

        def forward(self, x: Any) -> Any:
            return x + self.body(x) if self.is_residual else self.body(x)

    table = [
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
    ]
    layers, before = convolution(3, 32, 3, 2, 1), 32
    for factor, after, n, stride in [*table, (6, 320, 1, 1)]:
        for i in range(n):
            layers.append(Block(before, after, stride if i == 0 else 1, factor))
            before = after
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000)]
    return nn.Sequential(*layers, *convolution(320, 1280, 1, 1, 1), *head)


def images(training: int, size: int) -> Callable[[bool], tuple[Any, Any]]:
    """Return a function that creates a batch of images; for inference, the batch is one image."""

    def batch(is_training: bool) -> tuple[Any, Any]:
        import torch

        n = training if is_training else 1
        return torch.randn(n, 3, size, size), torch.arange(n) * 7 % 1000

    return batch


def rows(is_training: bool) -> tuple[Any, Any]:
    """Return a batch for the MLP."""
    import torch

    n = 32 if is_training else 1
    return torch.randn(n, 784), torch.arange(n) % 10


def texts(is_training: bool) -> tuple[Any, Any]:
    """Return a batch for the decoder."""
    import torch

    text = torch.randint(256, (16 if is_training else 1, 129))
    return text[:, :-1].contiguous(), text[:, 1:].contiguous()


RECIPES = {
    "mlp": Recipe("784-512-256-10, batch 32", make_mlp, rows),
    "gpt": Recipe("a GPT of 4 blocks, 128 wide, batch 16 of 128 characters", make_gpt, texts),
    "resnet18": Recipe("ResNet-18, batch 8, 224×224", make_resnet18, images(8, 224)),
    "mobilenet": Recipe("MobileNet-v2, batch 16, 96×96", make_mobilenet, images(16, 96)),
}
