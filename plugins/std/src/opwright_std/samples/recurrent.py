"""Inputs of recurrent layers: consistent parameters, and lengths within x."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opwright_std.samples.drawn import Drawn

if TYPE_CHECKING:
    from opwright_kit.testing import Draw


GATES = {"lstm": 4, "general_lstm": 4, "gru": 3, "rnn": 1}

_LOSES_TAILS = "1 - gate, which avoids saving sums, cancels for an open gate"


def recurrent(draw: Draw) -> Drawn:
    """Draw one or two layers, with small weights so that no gate saturates or is clipped."""
    draw.loses_tails = _LOSES_TAILS
    op_type, attrs = draw.definition.op_type, dict(draw.attrs)
    is_general = op_type == "general_lstm"
    directions = 2 if attrs["bidirectional"] else 1
    steps = draw.choice([1, 3] if is_general else [0, 1, 3])
    n, inputs = draw.other_length(), draw.other_length()
    size = states = max(1, draw.length % 20)
    count, rows = directions * draw.choice([1, 2]), GATES[op_type] * size
    optional = {"bias_ih": rows, "bias_hh": rows}
    given: dict[str, Any] = {}
    if is_general:
        optional["peephole"] = 3 * size
        attrs["clip"] = draw.choice([0.0, 1000.0])
        if draw.choice([False, True]):
            states = max(1, size // 2)
            given["weight_hr"] = [draw.floats((states, size), -0.5, 0.5) for _ in range(count)]
    widths = [inputs if i < directions else directions * states for i in range(count)]
    shape = (n, steps, inputs) if attrs["batch_first"] else (steps, n, inputs)
    given["x"] = draw.floats(shape)
    given["weight_ih"] = [draw.floats((rows, width), -0.5, 0.5) for width in widths]
    given["weight_hh"] = [draw.floats((rows, states), -0.5, 0.5) for _ in widths]
    for slot, length in optional.items():
        if draw.choice([False, True]):
            given[slot] = [draw.floats((length,), -0.5, 0.5) for _ in widths]
    for slot, width in (("h0", states), ("c0", size))[: 1 + op_type.endswith("lstm")]:
        if draw.choice([False, True]):
            given[slot] = draw.floats((count, n, width))
    if draw.choice([False, True]):
        given["lengths"] = draw.integers((n,), 0, steps + 1, draw.choice(["int32", "int64"]))
        draw.refused["lengths"] = (-1, steps + 1)
    return given, attrs


def recurrent_cell(draw: Draw) -> Drawn:
    """Draw small weights so that no gate saturates."""
    draw.loses_tails = _LOSES_TAILS
    kind = draw.definition.op_type.removesuffix("_cell")
    n, inputs, size = draw.other_length(), draw.other_length(), max(1, draw.length % 20)
    rows = GATES[kind] * size
    given: dict[str, Any] = {"x": draw.floats((n, inputs)), "h": draw.floats((n, size))}
    if kind == "lstm":
        given["c"] = draw.floats((n, size))
    given["weight_ih"] = draw.floats((rows, inputs), -0.5, 0.5)
    given["weight_hh"] = draw.floats((rows, size), -0.5, 0.5)
    for slot in ("bias_ih", "bias_hh"):
        if draw.choice([False, True]):
            given[slot] = draw.floats((rows,), -0.5, 0.5)
    return given, draw.attrs


SAMPLES = {
    **dict.fromkeys(GATES, recurrent),
    **dict.fromkeys(("lstm_cell", "gru_cell"), recurrent_cell),
}
