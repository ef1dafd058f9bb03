"""Generators of small data sets: two moons, spirals, colored shapes, sequences to reverse.

The same arguments give the same data with the same NumPy release; between machines only the
last digits of sines and cosines may differ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from opwright_nn import arguments, checks
from opwright_nn.datasets.dataset import Dataset
from opwright_nn.datasets.table import Table

__all__ = ["SHAPES", "reversed_sequences", "shapes", "spirals", "two_moons"]

SHAPES = ("disc", "half disc", "ring", "square", "frame", "triangle", "cross", "star")
"""The classes of `shapes`."""

_MAX_NOISE = 1e30  # float32 represents its sums


@arguments.suggest
def two_moons(n: int, noise: float = 0.1, seed: int = 0) -> Table:
    """Return points on two interleaving half circles, one for each class.

    Class 0 is on (cos t, sin t), class 1 on (1 - cos t, 0.5 - sin t), with t evenly spaced in
    [0, π]; no line separates them.

    Parameters
    ----------
    n : int, at least 2
        The number of points. Each class has half of them; class 0 has the extra point if n is odd.
    noise : float in [0, 1e30]
        The standard deviation of the noise added to both coordinates.
    seed : int, at least 0
        The seed of the noise and the order.

    Returns
    -------
    Table
        Features float32 [n, 2], targets int64 [n, 1], shuffled.
    """
    n, noise, seed = _check("generators.two_moons", n, 2, noise, seed)
    upper, lower = np.linspace(0, np.pi, (n + 1) // 2), np.linspace(0, np.pi, n // 2)
    points = np.concatenate(
        [
            np.stack([np.cos(upper), np.sin(upper)], 1),
            np.stack([1 - np.cos(lower), 0.5 - np.sin(lower)], 1),
        ]
    )
    classes = np.repeat([0, 1], [len(upper), len(lower)])
    return _finish(points, classes, noise, seed, ("upper", "lower"))


@arguments.suggest
def spirals(
    n: int, classes: int = 2, noise: float = 0.05, seed: int = 0, turns: float = 1.0
) -> Table:
    """Return points on spirals around the origin, one for each class.

    Class k is on r (cos a, sin a) with the angle a = 2π (turns r + k / classes), and r evenly
    spaced in [0.1, 1].

    Parameters
    ----------
    n : int, at least `classes`
        The number of points, divided among the classes as evenly as possible.
    classes : int, at least 2
        The number of spirals.
    noise : float in [0, 1e30]
        The standard deviation of the noise in both coordinates.
    seed : int, at least 0
        The seed of the noise and the order.
    turns : float in (0, 1e6]
        The number of turns around the origin from r = 0 to 1.

    Returns
    -------
    Table
        Features float32 [n, 2], targets int64 [n, 1], shuffled.
    """
    who = "generators.spirals"
    classes = checks.check_int(who, "classes", classes, at_least=2)
    n, noise, seed = _check(who, n, classes, noise, seed)
    turns = checks.check_float(who, "turns", turns, above=0, at_most=1e6)
    labels = np.sort(np.arange(n) % classes)
    sizes = np.bincount(labels)
    radius = np.concatenate([np.linspace(0.1, 1, size) for size in sizes])
    angle = 2 * np.pi * (turns * radius + labels / classes)
    points = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)
    return _finish(points, labels, noise, seed, [f"spiral {k}" for k in range(classes)])


@arguments.suggest
def shapes(n: int, size: int = 32, noise: float = 0.1, seed: int = 0) -> Dataset:
    """Return color images of one shape each: a task for convolutions.

    Position, radius, angle and both colors are random. The radius of the circle around a shape is
    0.2 to 0.4 of the image's side, and the circle is within the image. The colors of the shape
    and of the background differ by at least 0.3 in one of red, green and blue.

    Parameters
    ----------
    n : int, at least 1
        The number of images, divided equally among the classes of `SHAPES`.
    size : int, at least 8
        Height and width.
    noise : float in [0, 1e30]
        The standard deviation of the noise added to each pixel, before pixels are clipped to [0,
        1].
    seed : int, at least 0
        The seed of all random numbers.

    Returns
    -------
    Dataset
        Images float32 [n, 3, size, size] in [0, 1], labels int64 [n, 1], shuffled.
    """
    n, noise, seed = _check("generators.shapes", n, 1, noise, seed)
    size = checks.check_int("generators.shapes", "size", size, at_least=8)
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(n) % len(SHAPES))
    radius = rng.uniform(0.2, 0.4, (n, 1, 1))
    place = rng.uniform(radius, 1 - radius, (2, n, 1, 1))
    angle = rng.uniform(0, 2 * np.pi, (n, 1, 1))
    pixels = (np.arange(size) + 0.5) / size
    x, y = (pixels - place[0]) / radius, (pixels[:, None] - place[1]) / radius
    turned = np.cos(angle) * x + np.sin(angle) * y, np.cos(angle) * y - np.sin(angle) * x
    inside = np.select([labels[:, None, None] == k for k in range(len(SHAPES))], _draw(*turned))
    ground = rng.uniform(0, 1, (n, 3))
    figure = rng.uniform(0, 1, (n, 3))
    channel = rng.integers(0, 3, n)
    chosen = ground[np.arange(n), channel]
    step = rng.uniform(0.3, 0.5, n)
    figure[np.arange(n), channel] = np.where(chosen < 0.5, chosen + step, chosen - step)
    images = np.where(inside[:, None], figure[..., None, None], ground[..., None, None])
    images += noise * rng.standard_normal(images.shape)
    return Dataset(images.clip(0, 1).astype(np.float32), labels.astype(np.int64).reshape(-1, 1))


def _draw(x: npt.NDArray[Any], y: npt.NDArray[Any]) -> list[npt.NDArray[np.bool_]]:
    """Return, for each shape, which points are inside; all shapes are within the unit circle."""
    r, largest, smallest = np.hypot(x, y), *(f(abs(x), abs(y)) for f in (np.maximum, np.minimum))
    square = largest <= np.sqrt(0.5)
    return [
        r <= 1,
        (r <= 1) & (y >= 0),
        (r <= 1) & (r >= 0.6),
        square,
        square & (largest >= 0.4),
        (y >= -0.5) & (np.sqrt(3) * abs(x) + y <= 1),
        (r <= 1) & (smallest <= 0.25),
        r <= 0.65 + 0.35 * np.cos(5 * np.arctan2(y, x)),
    ]


@arguments.suggest
def reversed_sequences(
    n: int, length: int = 8, symbols: int = 10, seed: int = 0
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return random sequences, and the same sequences reversed.

    A task for recurrent networks and attention: the first output depends on the last input.

    Parameters
    ----------
    n : int, at least 1
        The number of sequences. They may repeat, since only ``symbols ** length`` different
        sequences exist.
    length : int, at least 1
        The length of each sequence.
    symbols : int, at least 2
        The number of symbols: 0 to ``symbols - 1``, all equally likely.
    seed : int, at least 0
        The seed of the symbols.

    Returns
    -------
    (ndarray, ndarray)
        Inputs and targets, int64 [n, length].
    """
    who = "generators.reversed_sequences"
    n = checks.check_int(who, "n", n, at_least=1)
    length = checks.check_int(who, "length", length, at_least=1)
    symbols = checks.check_int(who, "symbols", symbols, at_least=2)
    seed = checks.check_int(who, "seed", seed, at_least=0)
    inputs = np.random.default_rng(seed).integers(0, symbols, (n, length), np.int64)
    return inputs, inputs[:, ::-1].copy()


def _check(who: str, n: int, least: int, noise: float, seed: int) -> tuple[int, float, int]:
    return (
        checks.check_int(who, "n", n, at_least=least),
        checks.check_float(who, "noise", noise, at_least=0, at_most=_MAX_NOISE),
        checks.check_int(who, "seed", seed, at_least=0),
    )


def _finish(
    points: npt.NDArray[Any], labels: npt.NDArray[Any], noise: float, seed: int, classes: Any
) -> Table:
    """Return points with noise and labels, shuffled."""
    rng = np.random.default_rng(seed)
    noisy = (points + noise * rng.standard_normal(points.shape)).astype(np.float32)
    order = rng.permutation(len(points))
    targets = labels.astype(np.int64).reshape(-1, 1)
    return Table(noisy[order], targets[order], ("x", "y"), classes)
