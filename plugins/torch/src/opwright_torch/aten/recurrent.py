"""Recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from opwright_torch.translate import Rows, Translator
from opwright_torch.translate.translator import Value

ROWS: Final = Rows()


@ROWS.row("aten::lstm.input")
def lstm(t: Translator, input: Value, hx: Sequence[Value], **named: Value) -> Value:
    """Append long short-term memory layers, optionally with projected states."""
    return _layers(t, "lstm", input, dict(zip(("h0", "c0"), hx)), **named)


@ROWS.row("aten::gru.input")
def gru(t: Translator, input: Value, hx: Value, **named: Value) -> Value:
    """Append layers of gated recurrent units."""
    return _layers(t, "gru", input, {"h0": hx}, **named)


@ROWS.row("aten::rnn_tanh.input")
def rnn_tanh(t: Translator, input: Value, hx: Value, **named: Value) -> Value:
    """Append plain recurrent layers."""
    return _layers(t, "rnn", input, {"h0": hx}, **named)


@ROWS.row("aten::rnn_relu.input")
def rnn_relu(t: Translator, input: Value, hx: Value, **named: Value) -> Value:
    """Append plain recurrent layers with relu."""
    return _layers(t, "rnn", input, {"h0": hx}, activation="relu", **named)


def _layers(
    t: Translator,
    type: str,
    x: Value,
    states: dict[str, Value],
    params: Sequence[Value],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    **attrs: Any,
) -> Value:
    """Append one operator for all layers, or one per layer if there is dropout between layers."""
    n_units = num_layers * (2 if attrs["bidirectional"] else 1)
    names = ["weight_ih", "weight_hh", *(["bias_ih", "bias_hh"] if has_biases else [])]
    if len(params) > len(names) * n_units:
        type, names = "general_lstm", [*names, "weight_hr"]
    weights = {name: list(params[i :: len(names)]) for i, name in enumerate(names)}
    n_outputs = 1 + len(states)
    if num_layers == 1 or not train or dropout == 0:
        return t.op(type, x, n=n_outputs, **weights, **states, **attrs)
    firsts = {name: t.op("split", v, axis=0, num=num_layers) for name, v in states.items()}
    lasts: list[list[Value]] = []
    for layer in range(num_layers):
        if layer:
            x = t.op("dropout", x, probability=float(dropout), training=True)
        begin, end = (n_units // num_layers * number for number in (layer, layer + 1))
        own = {name: values[begin:end] for name, values in weights.items()}
        first = {name: values[layer] for name, values in firsts.items()}
        x, *last = t.op(type, x, n=n_outputs, **own, **first, **attrs)
        lasts.append(last)
    return x, *(t.op("concat", list(values), axis=0) for values in zip(*lasts, strict=True))
