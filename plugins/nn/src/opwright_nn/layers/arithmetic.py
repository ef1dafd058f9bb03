"""Arithmetic of two variables as functions; ``x + y`` and so on append the same operators."""

from __future__ import annotations

import opwright as ow
from opwright_nn import checks
from opwright_nn.layers.inputs import Input
from opwright_nn.layers.layer import append_layer


def add(input: Input, y: Input, name: str | None = None) -> ow.Variable:
    """Append ``x + y``, with broadcasting."""
    return append_layer("add", {"x": input, "y": y}, {}, name)


def subtract(input: Input, y: Input, name: str | None = None) -> ow.Variable:
    """Append ``x - y``, with broadcasting."""
    return append_layer("subtract", {"x": input, "y": y}, {}, name)


def multiply(input: Input, y: Input, name: str | None = None) -> ow.Variable:
    """Append ``x * y``, element by element, with broadcasting."""
    return append_layer("multiply", {"x": input, "y": y}, {}, name)


def divide(input: Input, y: Input, name: str | None = None) -> ow.Variable:
    """Append ``x / y``, with broadcasting."""
    return append_layer("divide", {"x": input, "y": y}, {}, name)


def matmul(
    input: Input,
    y: Input,
    transpose_x: bool = False,
    transpose_y: bool = False,
    name: str | None = None,
) -> ow.Variable:
    """Append the products of the matrices in the last two axes of each variable.

    Parameters
    ----------
    input, y : Variable or str
        The axes before the last two broadcast.
    transpose_x, transpose_y : bool
        Whether its last two axes are swapped first.
    name : str, optional
        The prefix of the layer's variable names.
    """
    attrs = {
        "transpose_x": checks.check_bool("matmul", "transpose_x", transpose_x),
        "transpose_y": checks.check_bool("matmul", "transpose_y", transpose_y),
    }
    return append_layer("matmul", {"x": input, "y": y}, attrs, name)


def cos_sim(input: Input, y: Input, name: str | None = None) -> ow.Variable:
    """Append the cosine of each pair of rows of x and y."""
    return append_layer("cos_sim", {"x": input, "y": y}, {}, name)
