"""Parameters of recurrent layers fit each other, and a sequence is no longer than x."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opwright_kit.testing import Draw

Drawn = tuple[Mapping[str, Any], Mapping[str, Any]] | None

GATES = {"lstm": 4, "general_lstm": 4, "gru": 3, "rnn": 1}


def recurrent(draw: Draw) -> Drawn:
    """One or two layers; small weights, so that no gate is all open or shut."""
    op_type = draw.definition.op_type
    directions = 2 if draw.attrs["bidirectional"] else 1
    steps, n, inputs = draw.choice([0, 1, 3]), draw.other_length(), draw.other_length()
    size = max(1, draw.length % 20)
    count, rows = directions * draw.choice([1, 2]), GATES[op_type] * size
    widths = [inputs if i < directions else directions * size for i in range(count)]
    shape = (n, steps, inputs) if draw.attrs["batch_first"] else (steps, n, inputs)
    given: dict[str, Any] = {
        "x": draw.floats(shape),
        "weight_ih": [draw.floats((rows, width), -0.5, 0.5) for width in widths],
        "weight_hh": [draw.floats((rows, size), -0.5, 0.5) for _ in widths],
    }
    for slot in ("bias_ih", "bias_hh"):
        if draw.choice([False, True]):
            given[slot] = [draw.floats((rows,), -0.5, 0.5) for _ in widths]
    if op_type == "general_lstm" and draw.choice([False, True]):
        given["peephole"] = [draw.floats((3 * size,), -0.5, 0.5) for _ in widths]
    for slot in ("h0", "c0") if op_type.endswith("lstm") else ("h0",):
        if draw.choice([False, True]):
            given[slot] = draw.floats((count, n, size))
    if draw.choice([False, True]):
        given["lengths"] = draw.integers((n,), 0, steps + 1, draw.choice(["int32", "int64"]))
        draw.refused["lengths"] = (-1, steps + 1)
    return given, draw.attrs


def general_lstm(draw: Draw) -> Drawn:
    """Small weights and gates that no bound reaches, with projected states or peepholes."""
    directions = 2 if draw.attrs["bidirectional"] else 1
    steps, n, inputs = draw.choice([1, 3]), draw.other_length(), draw.other_length()
    size, count = max(1, draw.length % 20), directions * draw.choice([1, 2])
    is_projected = draw.choice([False, True])
    states = max(1, size // 2) if is_projected else size
    widths = [inputs if i < directions else directions * states for i in range(count)]
    shape = (n, steps, inputs) if draw.attrs["batch_first"] else (steps, n, inputs)
    given: dict[str, Any] = {
        "x": draw.floats(shape),
        "weight_ih": [draw.floats((4 * size, width), -0.5, 0.5) for width in widths],
        "weight_hh": [draw.floats((4 * size, states), -0.5, 0.5) for _ in widths],
    }
    for slot, length in (("bias_ih", 4 * size), ("bias_hh", 4 * size), ("peephole", 3 * size)):
        if draw.choice([False, True]):
            given[slot] = [draw.floats((length,), -0.5, 0.5) for _ in widths]
    if is_projected:
        given["weight_hr"] = [draw.floats((states, size), -0.5, 0.5) for _ in widths]
    for slot, width in (("h0", states), ("c0", size)):
        if draw.choice([False, True]):
            given[slot] = draw.floats((count, n, width))
    return given, {**draw.attrs, "clip": draw.choice([0.0, 1000.0])}


def recurrent_cell(draw: Draw) -> Drawn:
    """Small weights, so that no gate is all open or shut."""
    draw.loses_tails = "1 - gate, by which sums need not be kept, has few digits where it is open"
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
    "general_lstm": general_lstm,
    **dict.fromkeys(("lstm_cell", "gru_cell"), recurrent_cell),
}
