"""Small PNG files, and a function that decodes a file, for the loaders of both frameworks."""

from __future__ import annotations

import atexit
import tempfile
from pathlib import Path

import numpy as np

N_IMAGES, SIDE = 10_000, 32


def write_images() -> list[tuple[str, int]]:
    """Write 10,000 images with smooth colors into a temporary folder; return paths and labels."""
    from PIL import Image

    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    rng = np.random.default_rng(0)
    items = []
    for number in range(N_IMAGES):
        coarse = rng.integers(0, 256, (4, 4, 3), np.uint8)
        path = Path(folder.name) / f"{number}.png"
        Image.fromarray(coarse).resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(path)
        items.append((str(path), number % 10))
    return items


def decode(item: tuple[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return an image, float32 [3, 32, 32] in [0, 1], and its label."""
    from PIL import Image

    path, label = item
    with Image.open(path) as image:
        pixels = np.asarray(image.convert("RGB"), np.float32) / np.float32(255)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)), np.array(label)
