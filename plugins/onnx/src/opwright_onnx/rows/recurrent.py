"""Rows of recurrent layers; ONNX orders their gates differently."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opwright_onnx.errors import DeclinedError
from opwright_onnx.translate.node import Node
from opwright_onnx.translate.table import Rows
from opwright_onnx.translate.translator import Translator
from opwright_onnx.translate.values import Value
from opwright_onnx.translate.walking import call_row

ROWS = Rows()

_GATES = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
"""The positions of our first, second, ... gate in ONNX: of iofc our i, f, c, o; of zrh our r, z,
h."""

_ACTIVATIONS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}


class _Layer:
    """The inputs of a recurrent node, split by direction."""

    def __init__(self, t: Translator, n: Node) -> None:
        given = [*n.inputs, *[None] * (8 - len(n.inputs))]
        self.t, self.n = t, n
        self.x, self.w, self.r, self.b, self.lengths, self.h0, self.c0, self.peepholes = given
        self.direction = n.attr("direction") or "forward"
        self.count = 2 if self.direction == "bidirectional" else 1
        self.layout = n.attr("layout", 0)
        self.size = t.known_shape(self.r, "R")[2]

    def weights(self, packed: Value, start: int = 0) -> list[Value]:
        """Return the matrices or biases of each direction, with the gates in opwright's order."""
        return self._gates(packed, [start + gate for gate in _GATES[self.n.op_type]])

    def read_peepholes(self) -> list[Value]:
        """Return the peephole weights of each direction in the order i, f, o; ONNX uses i, o, f."""
        return self._gates(self.peepholes, [0, 2, 1])

    def _gates(self, packed: Value, order: list[int]) -> list[Value]:
        t, size, found = self.t, self.size, []
        for direction in range(self.count):
            part = t.op("squeeze", t.slice(packed, [0], [direction], [direction + 1]), axis=[0])
            gates = [t.slice(part, [0], [gate * size], [(gate + 1) * size]) for gate in order]
            found.append(t.op("concat", gates, axis=0) if len(gates) > 1 else gates[0])
        return found

    def state(self, value: Value) -> Value:
        """Swap the axes n and directions of states if layout is 1."""
        if value is None or not self.layout:
            return value
        return self.t.transpose(value, [1, 0, 2])


@ROWS.row("LSTM", "GRU", "RNN")
def recurrent(t: Translator, n: Node, *inputs: Value) -> Any:
    layer = _Layer(t, n)
    activations = _check(n, layer)
    x = t.transpose(layer.x, [1, 0, 2]) if layer.layout else layer.x
    lengths = None if layer.lengths is None else t.cast(layer.lengths, "int64")
    if layer.direction == "reverse":
        x = _reversed(t, x, lengths)
    biases: dict[str, Any] = {}
    if layer.b is not None:
        biases["bias_ih"] = layer.weights(layer.b)
        biases["bias_hh"] = layer.weights(layer.b, len(_GATES[n.op_type]))
    named: dict[str, Any] = {**biases, "h0": layer.state(layer.h0), "lengths": lengths}
    if n.op_type == "LSTM":
        named["c0"] = layer.state(layer.c0)
        if layer.peepholes is not None:
            named["peephole"] = layer.read_peepholes()
        if n.attr("clip"):
            named["clip"] = n.attr("clip")
    if n.op_type == "GRU":
        named["reset_after"] = bool(n.attr("linear_before_reset"))
    if n.op_type == "RNN":
        named["activation"] = activations[0].lower()
    is_general = named.keys() & {"peephole", "clip"}
    op_type = "general_lstm" if is_general else n.op_type.lower()
    outputs = 3 if n.op_type == "LSTM" else 2
    flags = {"bidirectional": layer.count == 2}
    weights = layer.weights(layer.w), layer.weights(layer.r)
    out, *states = t.op(op_type, x, *weights, **named, **flags, outputs=outputs)
    if layer.direction == "reverse":
        out = _reversed(t, out, lengths)
    return _shaped(t, layer, out, states)


def _shaped(t: Translator, layer: _Layer, out: Value, states: Sequence[Value]) -> Any:
    """Return out, with its axes in the order of the layout, and the last states.

    The shape of out is [t, directions, n, size], or [n, t, directions, size] with layout 1.
    """
    steps, batch = t.dim(out, 0), t.dim(out, 1)
    parts = t.reshape(out, [steps, batch, layer.count, layer.size])
    order = [1, 0, 2, 3] if layer.layout else [0, 2, 1, 3]
    return t.transpose(parts, order), *map(layer.state, states)


def _reversed(t: Translator, x: Value, lengths: Value) -> Value:
    """Reverse each sequence in [t, n, ...] along time, within the length of the sequence."""
    if lengths is None:
        return t.op("flip", x, axis=[0])
    found = t.op("sequence_reverse", t.transpose(x, [1, 0, 2]), lengths)
    return t.transpose(found, [1, 0, 2])


def _check(n: Node, layer: _Layer) -> list[str]:
    """Return the activations, or raise DeclinedError for unsupported attributes."""
    usual = _ACTIVATIONS[n.op_type]
    activations = n.attr("activations") or usual * layer.count
    for direction in range(layer.count):
        found = activations[direction * len(usual) : (direction + 1) * len(usual)]
        if n.op_type == "RNN" and found in (["Tanh"], ["Relu"]) and found == activations[:1]:
            continue
        if found != usual:
            raise DeclinedError(f"activations must be {usual}, got {activations}")
    if n.attr("clip") and n.op_type != "LSTM":
        raise DeclinedError(f"clip must be absent, got {n.attr('clip')}")
    if n.attr("input_forget"):
        raise DeclinedError("input_forget must be 0, got 1")
    return list(activations)


@ROWS.row("CausalConvWithState")
def causal_conv(
    t: Translator, n: Node, x: Value, weight: Value, bias: Value = None, past: Value = None
) -> Any:
    channels, _, size = t.known_shape(weight, "weight")
    if past is None:
        whole = t.op("pad", x, paddings=[0, 0, 0, 0, size - 1, 0])
    else:
        whole = t.op("concat", [past, x], axis=2)
    found = call_row(t, "Conv", whole, weight, bias, group=channels)
    if n.attr("activation") in ("silu", "swish"):
        found = t.op("multiply", found, t.op("sigmoid", found))
    bounds = ([1 - size], [2**63 - 1]) if size > 1 else ([0], [0])
    return found, t.slice(whole, [2], *bounds)
