"""Rows of recurrent layers; ONNX orders their gates differently."""

from __future__ import annotations

from typing import Any

from opwright_onnx.errors import DeclinedError
from opwright_onnx.translate.table import Rows
from opwright_onnx.writing.writer import Op, Writer

ROWS = Rows()

_GATES = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn": (0,)}
"""The opwright index of each ONNX gate: LSTM gates are i, f, c, o here, and i, o, f, c in ONNX."""


@ROWS.row("lstm", "gru", "rnn", "general_lstm")
def recurrent(w: Writer, op: Op) -> Any:
    kind = "lstm" if op.type == "general_lstm" else op.type
    if op.inputs.get("weight_hr"):
        raise DeclinedError("ONNX's LSTM has no projection")
    count = 2 if op.attrs["bidirectional"] else 1
    n_layers = len(op.inputs["weight_ih"]) // count
    x = w.input(op, "x")
    if op.attrs["batch_first"]:
        x = w.node("Transpose", x, perm=[1, 0, 2])
    states: list[list[str]] = []
    for layer in range(n_layers):
        x, *final = _layer(w, op, kind, x, slice(layer * count, (layer + 1) * count))
        states.append(final)
    if op.attrs["batch_first"]:
        x = w.node("Transpose", x, perm=[1, 0, 2])
    joined = [
        parts[0] if n_layers == 1 else w.node("Concat", *parts, axis=0) for parts in zip(*states)
    ]
    return x, *joined


def _layer(w: Writer, op: Op, kind: str, x: str, part: slice) -> list[str]:
    """Emit a layer; return [t, n, directions * size] and last states [directions, n, size]."""
    count = part.stop - part.start
    size = w.shape(op, "weight_hh")[1]
    if size < 0:
        raise DeclinedError("the state size must be known")
    order = _GATES[kind]
    weights = [
        _packed(w, w.inputs(op, slot)[part], order, size) for slot in ("weight_ih", "weight_hh")
    ]
    biases = [w.inputs(op, slot)[part] for slot in ("bias_ih", "bias_hh")]
    bias = ""
    if any(biases):
        zero = w.const([0.0] * (size * len(order)), w.dtype(op))
        sides = [_packed(w, side or [zero] * count, order, size) for side in biases]
        bias = w.node("Concat", *sides, axis=1)
    lengths = w.input(op, "lengths")
    lengths = w.cast(lengths, "int32") if lengths else ""
    starts = [_part(w, w.input(op, slot), part) for slot in ("h0", "c0") if slot in op.inputs]
    if kind == "lstm" and "c0" in op.inputs and "h0" not in op.inputs:
        starts.insert(0, "")
    peephole = ""
    if op.inputs.get("peephole"):  # opwright orders the peepholes i, f, o
        starts += [""] * (2 - len(starts))
        peephole = _packed(w, w.inputs(op, "peephole")[part], (0, 2, 1), size)
    attrs: dict[str, Any] = {"hidden_size": size, "clip": op.attrs.get("clip") or None}
    attrs["direction"] = "bidirectional" if count == 2 else "forward"
    if kind == "gru":
        attrs["linear_before_reset"] = int(op.attrs["reset_after"])
    if kind == "rnn":
        attrs["activations"] = [str(op.attrs["activation"]).capitalize()] * count
    names = [x, *weights, bias, lengths, *starts, *([peephole] if peephole else [])]
    outputs = 3 if kind == "lstm" else 2
    out, *final = w.node(kind.upper(), *names, outputs=outputs, **attrs)
    moved = w.node("Transpose", out, perm=[0, 2, 1, 3])
    return [w.node("Reshape", moved, w.ints([0, 0, count * size])), *final]


def _packed(w: Writer, names: list[str], order: tuple[int, ...], size: int) -> str:
    """Pack the matrices or biases of all directions, with the gates in ONNX's order."""
    found = []
    for name in names:
        gates = [
            w.node("Slice", name, *map(w.ints, ([g * size], [(g + 1) * size], [0]))) for g in order
        ]
        whole = w.node("Concat", *gates, axis=0) if len(gates) > 1 else name
        found.append(w.node("Unsqueeze", whole, w.ints([0])))
    return str(w.node("Concat", *found, axis=0)) if len(found) > 1 else found[0]


def _part(w: Writer, states: str, part: slice) -> str:
    if not states:
        return ""
    return str(w.node("Slice", states, *map(w.ints, ([part.start], [part.stop], [0]))))
