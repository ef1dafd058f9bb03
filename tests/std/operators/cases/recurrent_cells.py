"""Test cases of lstm_cell and gru_cell."""

from __future__ import annotations

import numpy as np
from case import LENGTHS, Array, Case, Random, Source
from cases.recurrent import GATES, one_step, sigmoid


def lstm_cell(
    x: Array,
    h: Array,
    c: Array,
    weight_ih: Array,
    weight_hh: Array,
    bias_ih: Array | float = 0.0,
    bias_hh: Array | float = 0.0,
) -> tuple[Array, Array, None]:
    a, b = x @ weight_ih.T + bias_ih, h @ weight_hh.T + bias_hh
    rows = [one_step("lstm", *each, "") for each in zip(a, b, h, c, strict=True)]
    state, cell = np.moveaxis(np.array(rows).reshape(len(h), 2, h.shape[1]), 1, 0)
    return state, cell, None


def gru_cell(
    x: Array,
    h: Array,
    weight_ih: Array,
    weight_hh: Array,
    bias_ih: Array | float = 0.0,
    bias_hh: Array | float = 0.0,
    reset_after: bool = True,
) -> tuple[Array, None]:
    a, b = x @ weight_ih.T + bias_ih, h @ weight_hh.T + bias_hh
    if not reset_after:
        reset, last = sigmoid((a + b)[:, : h.shape[1]]), slice(2 * h.shape[1], None)
        bias = np.broadcast_to(bias_hh, len(weight_hh))[last]
        b[:, last] = ((reset * h) @ weight_hh[last].T + bias) / reset
    rows = [one_step("gru", *each, each[2], "")[0] for each in zip(a, b, h, strict=True)]
    return np.array(rows).reshape(h.shape), None


def case(
    kind: str,
    label: str,
    n: int = 2,
    inputs: int = 3,
    size: int = 4,
    slots: str = "bias_ih bias_hh",
    **attrs: bool,
) -> Case:
    rows = GATES[kind] * size
    given: dict[str, Source] = {"x": Random((n, inputs)), "h": Random((n, size))}
    if kind == "lstm":
        given["c"] = Random((n, size))
    given["weight_ih"] = Random((rows, inputs), -0.5, 0.5)
    given["weight_hh"] = Random((rows, size), -0.5, 0.5)
    for slot in slots.split():
        given[slot] = Random((rows,), -0.5, 0.5)
    expected = lstm_cell if kind == "lstm" else gru_cell
    return Case(f"{kind}_cell", given, expected, attrs, label=label, terms=16, ulps=8)


CASES = (
    case("gru", "reset-before", n=3, reset_after=False),
    *(
        made
        for kind in ("lstm", "gru")
        for made in (
            *(case(kind, f"size-{n}", size=n) for n in LENGTHS if n),
            *(case(kind, f"batch-{n}", n=n) for n in LENGTHS),
            case(kind, "plain", slots=""),
            case(kind, "one-bias", slots="bias_hh"),
        )
    ),
)
