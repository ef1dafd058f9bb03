"""Test cases of clip_by_norm and clip_by_global_norm."""

from __future__ import annotations

import numpy as np
from case import FLOATS, LENGTHS, Array, Case, Random, Values

NO_GRAD = "declared to have none"


def clip_by_norm(x: Array, max_norm: float) -> Array:
    return x * max_norm / max(float(np.linalg.norm(x)), max_norm)


def clip_by_global_norm(x: list[Array], max_norm: float) -> tuple[list[Array], Array]:
    norm = np.sqrt(sum(np.sum(each**2) for each in x))
    return [each * max_norm / max(float(norm), max_norm) for each in x], norm


def one(shape: tuple[int, ...], max_norm: float, label: str) -> Case:
    return Case(
        "clip_by_norm",
        {"x": Random(shape)},
        clip_by_norm,
        {"max_norm": max_norm},
        FLOATS,
        f"{label}-{'x'.join(map(str, shape)) or 'scalar'}",
        no_grad=NO_GRAD,
    )


def many(shapes: tuple[tuple[int, ...], ...], max_norm: float, label: str) -> Case:
    return Case(
        "clip_by_global_norm",
        {"x": [Random(shape) for shape in shapes]},
        clip_by_global_norm,
        {"max_norm": max_norm},
        FLOATS,
        label,
        outputs={"out": len(shapes)},
        no_grad=NO_GRAD,
    )


CASES = (
    *(one((n,), 0.5, "beyond") for n in LENGTHS),
    *(one(shape, 1000.0, "within") for shape in ((), (3, 4), (33,))),
    one((3, 5000), 2.0, "several-blocks"),
    Case(
        "clip_by_norm",
        {"x": Values([3.0, -4.0])},
        lambda x, max_norm: x,
        {"max_norm": 5.0},
        FLOATS,
        "at-the-bound",
        magnitude=0.0,
        no_grad=NO_GRAD,
    ),
    Case(
        "clip_by_norm",
        {"x": Values([3e30, -4e30])},
        lambda x, max_norm: np.array([0.6, -0.8]),
        {"max_norm": 1.0},
        ("float32", "float64"),
        "squares-overflow",
        no_grad=NO_GRAD,
    ),
    Case(
        "clip_by_norm",
        {"x": Values([1.0, float("nan")])},
        lambda x, max_norm: x * float("nan"),
        {"max_norm": 1.0},
        FLOATS,
        "nan",
        no_grad=NO_GRAD,
    ),
    many(((3,),), 0.5, "one"),
    many(((3, 4), (), (17,), (0, 2)), 0.5, "beyond"),
    many(((3, 4), (), (17,), (0, 2)), 1000.0, "within"),
    many(((0,), (0, 3)), 1.0, "empty"),
    many(((5000,), (2, 4096), (1,)), 1.0, "several-blocks"),
)
