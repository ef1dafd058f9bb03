"""ResNet-18 as a list of convolutions with batch normalisation, and its parameters.

He, Zhang, Ren and Sun, Deep Residual Learning for Image Recognition, 2015.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

EPSILON = 1e-5
CLASSES = 1000


@dataclass(frozen=True)
class Conv:
    """A convolution without bias, and the batch normalisation behind it."""

    name: str
    channels: int
    filters: int
    kernel: int
    stride: int

    @property
    def padding(self) -> int:
        """On each side, so that the stride alone changes the size."""
        return self.kernel // 2


@dataclass(frozen=True)
class Block:
    """relu(second(relu(first(x))) + (shortcut(x), or x))."""

    first: Conv
    second: Conv
    shortcut: Conv | None


STEM = Conv("stem", 3, 64, 7, 2)


def make_blocks() -> list[Block]:
    """Return the eight blocks."""
    blocks, channels = [], 64
    for stage, filters in enumerate((64, 128, 256, 512)):
        for index in range(2):
            name, stride = f"block{stage}_{index}", 2 if stage and not index else 1
            shortcut = None
            if stride != 1 or channels != filters:
                shortcut = Conv(f"{name}_shortcut", channels, filters, 1, stride)
            blocks.append(
                Block(
                    Conv(f"{name}_first", channels, filters, 3, stride),
                    Conv(f"{name}_second", filters, filters, 3, 1),
                    shortcut,
                )
            )
            channels = filters
    return blocks


BLOCKS = make_blocks()


def list_convs() -> list[Conv]:
    """Return all convolutions, each shortcut behind the two that it goes around."""
    convs = [STEM]
    for block in BLOCKS:
        convs += [block.first, block.second, *([block.shortcut] if block.shortcut else [])]
    return convs


def make_parameters() -> dict[str, np.ndarray]:
    """Return by name: of each convolution weight, scale, bias, mean, variance; fc weight, bias.

    ``<conv>.weight`` is [filters, channels, kernel, kernel], the other four are [filters];
    ``fc.weight`` is [512, 1000]. Float32, random, of a size that keeps activations near 1.
    """
    rng = np.random.default_rng(27)
    arrays = {}
    for conv in list_convs():
        shape = (conv.filters, conv.channels, conv.kernel, conv.kernel)
        spread = np.sqrt(2.0 / np.prod(shape[1:]))
        arrays[f"{conv.name}.weight"] = rng.standard_normal(shape) * spread
        arrays[f"{conv.name}.scale"] = rng.uniform(0.5, 1.0, conv.filters)
        arrays[f"{conv.name}.bias"] = rng.uniform(-0.1, 0.1, conv.filters)
        arrays[f"{conv.name}.mean"] = rng.uniform(-0.1, 0.1, conv.filters)
        arrays[f"{conv.name}.variance"] = rng.uniform(0.8, 1.2, conv.filters)
    arrays["fc.weight"] = rng.standard_normal((512, CLASSES)) * np.sqrt(1 / 512)
    arrays["fc.bias"] = rng.uniform(-0.1, 0.1, CLASSES)
    return {name: value.astype("float32") for name, value in arrays.items()}


def make_image() -> np.ndarray:
    """Return float32 [1, 3, 224, 224]."""
    return np.random.default_rng(28).standard_normal((1, 3, 224, 224), dtype="float32")
