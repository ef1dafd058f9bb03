"""Image networks as lists of convolutions with batch normalization, and their parameters.

ResNet-18: He, Zhang, Ren and Sun, Deep Residual Learning for Image Recognition, 2015. MobileNetV2:
Sandler, Howard and others, MobileNetV2: Inverted Residuals and Linear Bottlenecks, 2018. ResNeXt,
with two blocks per stage: Xie, Girshick and others, Aggregated Residual Transformations, 2016.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

EPSILON = 1e-5
CLASSES = 1000


@dataclass(frozen=True)
class Conv:
    """A convolution without bias, then batch normalization and the activation."""

    name: str
    channels: int
    filters: int
    kernel: int
    stride: int = 1
    groups: int = 1
    activation: str = ""

    @property
    def padding(self) -> int:
        """The padding on each side, chosen so that only the stride changes the size."""
        return self.kernel // 2


@dataclass(frozen=True)
class Block:
    """activation(path(x) + (shortcut(x) or x)), or only path(x)."""

    path: tuple[Conv, ...]
    adds: bool = True
    shortcut: Conv | None = None
    activation: str = ""


@dataclass(frozen=True)
class ImageNetwork:
    """A stem, optionally a 3×3 max_pool by 2, blocks, optionally a head, channel means, fc 1000."""

    stem: Conv
    pools: bool
    blocks: tuple[Block, ...]
    head: Conv | None = None

    @property
    def convs(self) -> list[Conv]:
        """All convolutions; each shortcut comes after the path that it bypasses."""
        convs = [self.stem]
        for block in self.blocks:
            convs += [*block.path, *([block.shortcut] if block.shortcut else [])]
        return convs + ([self.head] if self.head else [])

    def make_parameters(self) -> dict[str, np.ndarray]:
        """Return weight, scale, bias, mean and variance of convolutions, and weight and bias of fc.

        ``<conv>.weight`` is [filters, channels / groups, kernel, kernel], the other four are
        [filters]; ``fc.weight`` is [channels, 1000]. Values are random float32, scaled so that
        activations stay near 1.
        """
        rng = np.random.default_rng(27)
        arrays = {}
        for conv in self.convs:
            shape = (conv.filters, conv.channels // conv.groups, conv.kernel, conv.kernel)
            spread = np.sqrt(2.0 / np.prod(shape[1:]))
            arrays[f"{conv.name}.weight"] = rng.standard_normal(shape) * spread
            arrays[f"{conv.name}.scale"] = rng.uniform(0.5, 1.0, conv.filters)
            arrays[f"{conv.name}.bias"] = rng.uniform(-0.1, 0.1, conv.filters)
            arrays[f"{conv.name}.mean"] = rng.uniform(-0.1, 0.1, conv.filters)
            arrays[f"{conv.name}.variance"] = rng.uniform(0.8, 1.2, conv.filters)
        channels = (self.head or self.blocks[-1].path[-1]).filters
        arrays["fc.weight"] = rng.standard_normal((channels, CLASSES)) * np.sqrt(1 / channels)
        arrays["fc.bias"] = rng.uniform(-0.1, 0.1, CLASSES)
        return {name: value.astype("float32") for name, value in arrays.items()}


def _resnet18() -> Iterator[Block]:
    channels = 64
    for stage, filters in enumerate((64, 128, 256, 512)):
        for index in range(2):
            name, stride = f"block{stage}_{index}", 2 if stage and not index else 1
            shortcut = None
            if stride != 1 or channels != filters:
                shortcut = Conv(f"{name}_shortcut", channels, filters, 1, stride)
            first = Conv(f"{name}_first", channels, filters, 3, stride, activation="relu")
            second = Conv(f"{name}_second", filters, filters, 3)
            yield Block((first, second), True, shortcut, "relu")
            channels = filters


def _mobilenet() -> Iterator[Block]:
    channels = 32
    stages = (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
        (6, 320, 1, 1),
    )  # fmt: skip
    for stage, (factor, filters, count, first_stride) in enumerate(stages):
        for index in range(count):
            name, stride = f"block{stage}_{index}", first_stride if index == 0 else 1
            wide = factor * channels
            path = [
                Conv(f"{name}_depth", wide, wide, 3, stride, groups=wide, activation="relu6"),
                Conv(f"{name}_narrow", wide, filters, 1),
            ]
            if factor != 1:
                path.insert(0, Conv(f"{name}_wide", channels, wide, 1, activation="relu6"))
            yield Block(tuple(path), adds=stride == 1 and channels == filters)
            channels = filters


def _resnext() -> Iterator[Block]:
    channels = 64
    for stage, filters in enumerate((256, 512, 1024, 2048)):
        for index in range(2):
            name, stride = f"block{stage}_{index}", 2 if stage and not index else 1
            inner = filters // 2
            path = (
                Conv(f"{name}_first", channels, inner, 1, activation="relu"),
                Conv(f"{name}_grouped", inner, inner, 3, stride, groups=32, activation="relu"),
                Conv(f"{name}_last", inner, filters, 1),
            )
            shortcut = None if index else Conv(f"{name}_shortcut", channels, filters, 1, stride)
            yield Block(path, True, shortcut, "relu")
            channels = filters


RESNET18 = ImageNetwork(Conv("stem", 3, 64, 7, 2, activation="relu"), True, tuple(_resnet18()))
MOBILENET = ImageNetwork(
    Conv("stem", 3, 32, 3, 2, activation="relu6"),
    False,
    tuple(_mobilenet()),
    Conv("head", 320, 1280, 1, activation="relu6"),
)
RESNEXT = ImageNetwork(Conv("stem", 3, 64, 7, 2, activation="relu"), True, tuple(_resnext()))
