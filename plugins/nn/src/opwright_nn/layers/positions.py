"""Position encodings: trained or sinusoidal rows that are added, and rotary embeddings."""

from __future__ import annotations

import numpy as np

import opwright as ow
from opwright.errors import AttributeValueError, ShapeError
from opwright_nn import checks, operators
from opwright_nn.initializer import Normal
from opwright_nn.layers.inputs import Input, find_input
from opwright_nn.layers.layer import Layer, begin, last_axis
from opwright_nn.parameters.param_attr import ParamLike, check_param_attr
from opwright_nn.parameters.parameter import make_parameter


@ow.transaction()
def learned_positions(
    input: Input,
    max_length: int,
    *,
    name: str | None = None,
    param_attr: ParamLike | None = None,
) -> ow.Variable:
    """Append x plus a trained row for each position.

    Parameters
    ----------
    input : Variable or str, [n, time, columns]
        Float, such as an embedding of words; `columns` must be known.
    max_length : int, at least 1
        The maximum length of a sequence; a longer sequence is an error.
    name : str, optional
        The prefix of the layer's variable names.
    param_attr : ParamAttr or Initializer, optional
        For ``<name>_w_param``, [max_length, columns]; by default normal with standard deviation
        0.02.
    """
    who = "learned_positions"
    x = find_input(who, "input", input)
    columns = last_axis(who, x, 3)
    rows = checks.check_int(who, "max_length", max_length, at_least=1)
    _check_time(who, x, rows)
    attr = check_param_attr(who, "param_attr", param_attr)
    layer = begin(who, name)
    table = make_parameter(
        who,
        f"{layer.name}_w_param",
        attr,
        lambda: (rows, columns),
        default=Normal(0.0, 0.02),
        dtype=x.dtype,
    )
    index = ow.ops.cast(_positions(layer, x), dtype="int64")
    added = operators.append(layer.block, "embedding", {"weight": table, "index": index})
    return operators.append(layer.block, "add", {"x": x, "y": added}, name=layer.out)


@ow.transaction()
def sinusoidal_positions(
    input: Input, base: float = 10000.0, name: str | None = None
) -> ow.Variable:
    """Append x plus the fixed sines and cosines for each position.

    Column 2i gets ``sin(p * base**(-2i / columns))`` and column 2i + 1 the cosine, for position p.
    Vaswani et al., Attention Is All You Need, 2017.

    Parameters
    ----------
    input : Variable or str, [n, time, columns]
        Float, such as an embedding of words; `columns` must be known.
    base : float, > 1
        The longest wave has a length of ``2 * pi * base``.
    name : str, optional
        The prefix of the layer's variable names.
    """
    who = "sinusoidal_positions"
    x = find_input(who, "input", input)
    columns = last_axis(who, x, 3)
    base = checks.check_float(who, "base", base, above=1.0)
    layer = begin(who, name)
    pairs = np.arange(columns) // 2 * 2
    frequency = (base ** (-pairs / columns)).astype(np.float32)
    phase = np.where(np.arange(columns) % 2, np.pi / 2, 0).astype(np.float32)
    angles = ow.ops.unsqueeze(_positions(layer, x), axis=[2]) * frequency + phase
    waves = ow.ops.sin(angles)
    if x.dtype != waves.dtype:
        waves = ow.ops.cast(waves, dtype=x.dtype)
    return operators.append(layer.block, "add", {"x": x, "y": waves}, name=layer.out)


@ow.transaction()
def rotary_embedding(
    input: Input,
    max_length: int,
    *,
    base: float = 10000.0,
    interleaved: bool = False,
    name: str | None = None,
) -> ow.Variable:
    """Append x with pairs of columns rotated, by angles proportional to the position.

    The layer is applied to queries and keys, so their dot products depend on the distance between
    positions. Su et al., RoFormer, 2021.

    Parameters
    ----------
    input : Variable or str, [..., time, columns]
        Float; `columns` must be known and even.
    max_length : int, at least 1
        The maximum length of a sequence.
    base : float, > 1
        Pair i rotates by ``base**(-2i / columns)`` from one position to the next.
    interleaved : bool
        Whether a pair is columns 2i and 2i + 1, not columns i and ``columns / 2 + i``.
    name : str, optional
        The prefix of the layer's variable names.
    """
    who = "rotary_embedding"
    x = find_input(who, "input", input)
    columns = last_axis(who, x)
    rows = checks.check_int(who, "max_length", max_length, at_least=1)
    base = checks.check_float(who, "base", base, above=1.0)
    attrs = {"interleaved": checks.check_bool(who, "interleaved", interleaved)}
    if columns % 2:
        raise AttributeValueError(
            f"{who}: input must have an even number of columns, got {x!r}; columns are rotated in "
            "pairs"
        )
    layer = begin(who, name)
    frequency = (base ** (-np.arange(0, columns, 2) / columns)).astype(np.float32)
    span = {"start": 0.0, "stop": float(rows), "step": 1.0, "dtype": "float32"}
    steps = operators.append(layer.block, "arange", {}, span, name=layer.part("steps"))
    angles = ow.ops.unsqueeze(steps, axis=[1]) * frequency
    tables = {}
    for slot in ("cos", "sin"):
        table = operators.append(layer.block, slot, {"x": angles})
        tables[slot] = table if x.dtype == "float32" else ow.ops.cast(table, dtype=x.dtype)
    return operators.append(layer.block, who, {"x": x} | tables, attrs, name=layer.out)


def _positions(layer: Layer, x: ow.Variable) -> ow.Variable:
    """Append the positions 0, 1, 2, … of the time steps of a run, float32 [1, time]."""
    attrs = {"axes": [0, 2], "starts": [0, 0], "ends": [1, 1]}
    column = operators.append(layer.block, "slice", {"x": x}, attrs, name=layer.part("column"))
    row = ow.ops.squeeze(column, axis=[2])
    first = ow.ops.cast(ow.ops.fill_like(row, value=1.0), dtype="float32")
    positions: ow.Variable = ow.ops.cumsum(first, axis=1, exclusive=True)
    return positions


def _check_time(who: str, x: ow.Variable, max_length: int) -> None:
    time = (x.shape or (-1, -1))[1]
    if time > max_length:
        raise ShapeError(
            f"{who}: input must have at most max_length={max_length} time steps, got {x!r}; "
            "increase max_length"
        )
