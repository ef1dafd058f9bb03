"""Augmentation: images changed at random, one at a time or a complete batch at once.

Images are [channels, height, width] or [n, channels, height, width], uint8 in [0, 255] or floats in
[0, 1]; results have their dtype. Random functions take a `numpy.random.Generator`, such as the
``rng`` of ``map(item, rng)``, and draw for each image of a batch. The other functions are
deterministic, like the torchvision functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opwright_nn.datasets.augment.colors import (
    adjust_brightness,
    adjust_contrast,
    adjust_hue,
    adjust_saturation,
    color_jitter,
)
from opwright_nn.datasets.augment.crops import random_crop, random_resized_crop, resize
from opwright_nn.datasets.augment.mixing import cutout, mixup
from opwright_nn.datasets.augment.turns import (
    random_horizontal_flip,
    random_rotation,
    random_vertical_flip,
    rotate,
)
from opwright_nn.foreign_names import AUGMENTATIONS, answering

__all__ = [
    "adjust_brightness",
    "adjust_contrast",
    "adjust_hue",
    "adjust_saturation",
    "color_jitter",
    "cutout",
    "mixup",
    "random_crop",
    "random_horizontal_flip",
    "random_resized_crop",
    "random_rotation",
    "random_vertical_flip",
    "resize",
    "rotate",
]

if not TYPE_CHECKING:  # type checkers should report an unknown name
    __getattr__, __dir__ = answering(__name__, __all__, AUGMENTATIONS)
