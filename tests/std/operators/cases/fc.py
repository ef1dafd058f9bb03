"""Test cases of fc."""

from __future__ import annotations

from math import prod

import numpy as np
from case import LENGTHS, Array, Case, Random, Source, Values


def softmax(x: Array) -> Array:
    shifted = np.exp(x - x.max(-1, keepdims=True, initial=-np.inf))
    return shifted / shifted.sum(-1, keepdims=True)


ACTIVATIONS = {
    "": lambda x: x,
    "relu": lambda x: np.maximum(x, 0.0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "softmax": softmax,
}


def fc(
    x: Array,
    weight: Array,
    bias: Array | float = 0.0,
    num_flatten_dims: int = 1,
    activation: str = "",
    transpose_weight: bool = False,
) -> Array:
    weight = weight.T if transpose_weight else weight
    flat = x.reshape(*x.shape[:num_flatten_dims], prod(x.shape[num_flatten_dims:]))
    return ACTIVATIONS[activation](np.einsum("...i,io->...o", flat, weight) + bias)


def case(
    shape: tuple[int, ...],
    outputs: int,
    kept: int = 1,
    activation: str = "",
    bias: bool = True,
    turned: bool = False,
) -> Case:
    size = prod(shape[kept:])
    weight = (outputs, size) if turned else (size, outputs)
    shapes = {"x": shape, "weight": weight} | ({"bias": (outputs,)} if bias else {})
    inputs: dict[str, Source] = {slot: Random(dims, -1, 1) for slot, dims in shapes.items()}
    parts = ("x".join(map(str, shape)), str(outputs), activation, "bias" if bias else "")
    parts += ("turned",) if turned else ()
    return Case(
        "fc",
        inputs,
        fc,
        attrs={
            "num_flatten_dims": kept,
            "activation": activation,
            **({"transpose_weight": True} if turned else {}),
        },
        label="-".join(part for part in parts if part),
        terms=max(size, 1),
        magnitude=2.0,
    )


CASES = (
    Case(
        "fc",
        {
            "x": Values([[np.nan, 1.0], [-1.0, 2.0], [-np.inf, 0.0]]),
            "weight": Values([[1.0, -3.0], [1.0, 2.0]]),
        },
        fc,
        attrs={"activation": "relu"},
        label="relu-of-nan",
        no_grad="a difference shows nothing at infinity",
    ),
    *(case((3, 4), 5, activation=name) for name in ACTIVATIONS),
    *(case((3, n), 2, activation="sigmoid") for n in LENGTHS),
    case((3, 4), 5, bias=False),
    case((3, 4), 5, activation="tanh", bias=False),
    case((0, 4), 5, activation="softmax"),
    case((3, 2, 2), 5, activation="relu"),
    case((0, 2, 2), 5),
    case((2, 3, 4), 5, kept=2, activation="softmax"),
    case((2, 0, 4), 5, kept=2),
    case((2, 3, 2, 2), 4, kept=2, activation="sigmoid"),
    *(case((3, n), 5, activation="tanh", turned=True) for n in LENGTHS),
    *(
        case((rows, 17), 33, activation=name, turned=True)
        for rows in (2, 9)
        for name in ACTIVATIONS
    ),
    case((0, 4), 5, activation="softmax", turned=True),
    case((2, 3, 2, 2), 4, kept=2, activation="sigmoid", turned=True),
    case((2, 0, 4), 5, kept=2, bias=False, turned=True),
)
