"""Recurrent layers over complete sequences: lstm, gru and rnn."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import opwright as ow
from opwright.errors import AttributeValueError, ShapeError
from opwright.op import format_shape
from opwright_nn import checks
from opwright_nn.initializer import Uniform
from opwright_nn.layers.inputs import Input, find_input
from opwright_nn.layers.layer import begin
from opwright_nn.parameters.deferred import Shape
from opwright_nn.parameters.param_attr import ParamAttr, ParamLike, check_param_attr
from opwright_nn.parameters.parameter import make_parameter


class _Options(NamedTuple):
    """The unchecked arguments that the recurrent layers share."""

    size: object
    num_layers: object
    bidirectional: object
    batch_first: object
    bias: object
    name: object
    param_attr: object
    bias_attr: object


class _Weights(NamedTuple):
    """One weight or bias of a layer: its slot, its name suffix, and the kind of its input."""

    slot: str
    suffix: str
    is_bias: bool
    reads_state: bool


_WEIGHTS = (
    _Weights("weight_ih", "w_ih_param", False, False),
    _Weights("weight_hh", "w_hh_param", False, True),
    _Weights("bias_ih", "b_ih_param", True, False),
    _Weights("bias_hh", "b_hh_param", True, True),
)


@ow.transaction()
def lstm(
    input: Input,
    size: int,
    *,
    num_layers: int = 1,
    bidirectional: bool = False,
    h0: Input | None = None,
    c0: Input | None = None,
    lengths: Input | None = None,
    batch_first: bool = True,
    bias: bool = True,
    name: str | None = None,
    param_attr: ParamLike | None = None,
    bias_attr: ParamLike | None = None,
) -> tuple[ow.Variable, ow.Variable, ow.Variable]:
    """Append a long short-term memory over sequences, with PyTorch's formulas and weights.

    Hochreiter and Schmidhuber, Long Short-Term Memory, 1997. The gates are i, f, g and o, in this
    order in the rows of the weights.

    Parameters
    ----------
    input : Variable or str, [n, time, columns]
        Float; `columns` must be known, or, in a `Model`, is taken from the first batch.
    size : int, at least 1
        The width of a state.
    num_layers : int, at least 1
        The number of stacked layers; each reads the states of the previous layer.
    bidirectional : bool
        Whether each layer also reads from the end, and returns both states concatenated.
    h0, c0 : Variable or str, [num_layers * directions, n, size], optional
        The initial states; 0 by default.
    lengths : Variable or str, int [n], optional
        The length of each sequence. After the end of a sequence the output is 0. The last state is
        the state at its last time step, where the reverse direction begins.
    batch_first : bool
        False for x and output as [time, n, columns].
    bias : bool
        Whether the gates have biases.
    name : str, optional
        The prefix of the layer's variable names.
    param_attr, bias_attr : ParamAttr or Initializer, optional
        For the weights ``<name>_w_ih_param``, [4 * size, columns], and ``<name>_w_hh_param``,
        [4 * size, size], and the biases ``<name>_b_ih_param`` and ``<name>_b_hh_param``. By default
        uniform below ``size ** -0.5``. With several layers or directions, ``_0``, ``_0_reverse``,
        ``_1`` follow ``<name>``. Each attribute is used for several parameters, so it has no name.

    Returns
    -------
    out : Variable, [n, time, directions * size]
        The states h of the last layer at all time steps.
    h_n, c_n : Variable, [num_layers * directions, n, size]
        The states after the last time step.

    Examples
    --------
    >>> out, h_n, c_n = layers.lstm(words, 128, lengths=lengths)  # doctest: +SKIP
    >>> scores = layers.fc(h_n[-1], 2)  # doctest: +SKIP
    """
    options = _Options(
        size, num_layers, bidirectional, batch_first, bias, name, param_attr, bias_attr
    )
    states = {"h0": h0, "c0": c0, "lengths": lengths}
    out, h_n, c_n = _append("lstm", 4, input, states, options, ("out", "h_n", "c_n"))
    return out, h_n, c_n


@ow.transaction()
def gru(
    input: Input,
    size: int,
    *,
    num_layers: int = 1,
    bidirectional: bool = False,
    h0: Input | None = None,
    lengths: Input | None = None,
    batch_first: bool = True,
    bias: bool = True,
    name: str | None = None,
    param_attr: ParamLike | None = None,
    bias_attr: ParamLike | None = None,
) -> tuple[ow.Variable, ow.Variable]:
    """Append gated recurrent units over sequences, with PyTorch's formulas and weights.

    Cho et al., Learning Phrase Representations using RNN Encoder-Decoder, 2014. The gates are r, z
    and n, in this order in the rows of the weights.

    Parameters
    ----------
    input, size, num_layers, bidirectional, h0, lengths, batch_first, bias
        As in `layers.lstm`.
    name, param_attr, bias_attr
        As in `layers.lstm`, with ``3 * size`` rows.

    Returns
    -------
    out : Variable, [n, time, directions * size]
        The states of the last layer at all time steps.
    h_n : Variable, [num_layers * directions, n, size]
        The states after the last time step.
    """
    options = _Options(
        size, num_layers, bidirectional, batch_first, bias, name, param_attr, bias_attr
    )
    out, h_n = _append("gru", 3, input, {"h0": h0, "lengths": lengths}, options, ("out", "h_n"))
    return out, h_n


@ow.transaction()
def rnn(
    input: Input,
    size: int,
    *,
    activation: str = "tanh",
    num_layers: int = 1,
    bidirectional: bool = False,
    h0: Input | None = None,
    lengths: Input | None = None,
    batch_first: bool = True,
    bias: bool = True,
    name: str | None = None,
    param_attr: ParamLike | None = None,
    bias_attr: ParamLike | None = None,
) -> tuple[ow.Variable, ow.Variable]:
    """Append ``h = activation(x * w_ih + b_ih + h * w_hh + b_hh)`` over sequences.

    Elman, Finding Structure in Time, 1990.

    Parameters
    ----------
    activation : str
        "tanh" or "relu".
    input, size, num_layers, bidirectional, h0, lengths, batch_first, bias
        As in `layers.lstm`.
    name, param_attr, bias_attr
        As in `layers.lstm`, with `size` rows.

    Returns
    -------
    out : Variable, [n, time, directions * size]
        The states of the last layer at all time steps.
    h_n : Variable, [num_layers * directions, n, size]
        The states after the last time step.
    """
    options = _Options(
        size, num_layers, bidirectional, batch_first, bias, name, param_attr, bias_attr
    )
    attrs = {"activation": checks.check_choice("rnn", "activation", activation, ("tanh", "relu"))}
    states = {"h0": h0, "lengths": lengths}
    out, h_n = _append("rnn", 1, input, states, options, ("out", "h_n"), attrs)
    return out, h_n


def _append(
    who: str,
    gates: int,
    x: object,
    states: dict[str, Input | None],
    options: _Options,
    outputs: tuple[str, ...],
    attrs: dict[str, Any] | None = None,
) -> list[ow.Variable]:
    variable = find_input(who, "input", x)
    inputs: dict[str, Any] = {"x": variable}
    for slot, state in states.items():
        dtype = "int64" if slot == "lengths" else "float32"
        if state is not None:
            inputs[slot] = find_input(who, slot, state, dtype)
    size = checks.check_int(who, "size", options.size, at_least=1)
    flags = {
        "bidirectional": checks.check_bool(who, "bidirectional", options.bidirectional),
        "batch_first": checks.check_bool(who, "batch_first", options.batch_first),
    }
    layer = begin(who, options.name)
    inputs |= _make_parameters(who, layer.name, gates, variable, options)
    names = {slot: layer.part(slot) for slot in outputs}
    op = layer.block.append_op(who, inputs, names, flags | (attrs or {}))
    results = [layer.block.var(op.output(slot)[0]) for slot in outputs]
    if results[0].shape is None:
        # The width is known without the shape of x, and the next layer needs it.
        directions = 1 + flags["bidirectional"]
        results[0].shape = (-1, -1, directions * size)
        for state in results[1:]:
            state.shape = (len(inputs["weight_ih"]), -1, size)
    return results


def _make_parameters(
    who: str, layer: str, gates: int, x: ow.Variable, options: _Options
) -> dict[str, list[ow.Variable]]:
    """Return the parameters by slot, beginning with the first layer."""
    size = checks.check_int(who, "size", options.size, at_least=1)
    num_layers = checks.check_int(who, "num_layers", options.num_layers, at_least=1)
    directions = 1 + checks.check_bool(who, "bidirectional", options.bidirectional)
    with_bias = checks.check_bool(who, "bias", options.bias)
    weights = _check_attr(who, "param_attr", options.param_attr)
    biases = _check_attr(who, "bias_attr", options.bias_attr, "" if with_bias else "bias=False")
    initial = Uniform(-(size**-0.5), size**-0.5)
    kinds = [kind for kind in _WEIGHTS if with_bias or not kind.is_bias]
    parameters: dict[str, list[ow.Variable]] = {kind.slot: [] for kind in kinds}
    for index in range(num_layers * directions):
        prefix = _prefix(layer, index, num_layers, directions)
        below = None if index < directions else directions * size
        for kind in kinds:
            name, attr = f"{prefix}_{kind.suffix}", biases if kind.is_bias else weights
            rule = partial(_shape, who, kind, x, gates * size, size, below)
            parameter = make_parameter(who, name, attr, rule, default=initial, dtype=x.dtype)
            parameters[kind.slot].append(parameter)
    return parameters


def _check_attr(who: str, name: str, value: object, unless: str = "") -> ParamAttr:
    attr = check_param_attr(who, name, value, unless)
    if attr.name is not None:
        raise AttributeValueError(
            f"{who}: {name} must not have a name, as it applies to several parameters, got "
            f"{attr.name!r}; name the layer: name={attr.name!r}"
        )
    return attr


def _prefix(layer: str, index: int, num_layers: int, directions: int) -> str:
    """Return the prefix of a layer's parameter names."""
    if num_layers * directions == 1:
        return layer
    return f"{layer}_{index // directions}{'_reverse' if index % directions else ''}"


def _shape(
    who: str, kind: _Weights, x: ow.Variable, rows: int, size: int, below: int | None
) -> Shape:
    if kind.is_bias:
        return (rows,)
    if kind.reads_state:
        return rows, size
    if below is not None:
        return rows, below
    if x.shape is not None and len(x.shape) != 3:
        raise ShapeError(
            f"{who}: input must have 3 axes, of batch, time and columns, got "
            f"{format_shape(x.shape)}; an embedding of words [n, time] has them"
        )
    return rows, -1 if x.shape is None else x.shape[2]
