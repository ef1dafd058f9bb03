"""Test cases of lstm, gru and rnn."""

from __future__ import annotations

from typing import Any

import numpy as np
from case import Array, Case, Random, Source, Values

GATES = {"lstm": 4, "gru": 3, "rnn": 1}


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def one_step(op: str, a: Array, b: Array, h: Array, c: Array, activation: str) -> Any:
    """Return the new state and cell of one row."""
    if op == "rnn":
        return (np.tanh(a + b) if activation == "tanh" else np.maximum(a + b, 0)), c
    if op == "lstm":
        i, f, g, o = (a + b).reshape(4, -1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c
    (a_r, a_z, a_n), (b_r, b_z, b_n) = a.reshape(3, -1), b.reshape(3, -1)
    z = sigmoid(a_z + b_z)
    n = np.tanh(a_n + sigmoid(a_r + b_r) * b_n)
    return (1 - z) * n + z * h, c


def reference(op: str) -> Any:
    """Return the reference, which computes each row of the batch separately."""

    def run(
        x: Array,
        weight_ih: list[Array],
        weight_hh: list[Array],
        bias_ih: list[Array] | None = None,
        bias_hh: list[Array] | None = None,
        h0: Array | None = None,
        c0: Array | None = None,
        lengths: Array | None = None,
        bidirectional: bool = False,
        batch_first: bool = False,
        activation: str = "tanh",
        reset_after: bool = True,
    ) -> tuple[Array | None, ...]:
        source = np.swapaxes(x, 0, 1) if batch_first else x
        (t, n), size, directions = source.shape[:2], weight_hh[0].shape[1], 1 + bidirectional
        ends = np.zeros((2, len(weight_ih), n, size))
        for first in range(0, len(weight_ih), directions):
            made = np.zeros((t, n, directions * size))
            for d, row in np.ndindex(directions, n):
                k = first + d
                h = np.zeros(size) if h0 is None else h0[k, row]
                c = np.zeros(size) if c0 is None else c0[k, row]
                end = t if lengths is None else int(lengths[row])
                for s in range(end)[:: -1 if d else 1]:
                    a = weight_ih[k] @ source[s, row] + (bias_ih[k] if bias_ih else 0)
                    b = weight_hh[k] @ h + (bias_hh[k] if bias_hh else 0)
                    if not reset_after:  # r is 1 / (1 + exp(-(a_r + b_r)))
                        reset = sigmoid(a[:size] + b[:size])
                        last = weight_hh[k][2 * size :] @ (reset * h)
                        b[2 * size :] = last + (bias_hh[k][2 * size :] if bias_hh else 0)
                        b[2 * size :] /= reset  # cancels the reset gate
                    h, c = one_step(op, a, b, h, c, activation)
                    made[s, row, d * size : (d + 1) * size] = h
                ends[:, k, row] = h, c
            source = made
        out = np.swapaxes(source, 0, 1) if batch_first else source
        if op == "lstm":
            return out, ends[0], ends[1], None, None, None
        return (out, ends[0], None, None) if op == "gru" else (out, ends[0], None)

    return run


def case(
    op: str,
    label: str,
    t: int = 3,
    n: int = 2,
    inputs: int = 3,
    size: int = 4,
    layers: int = 1,
    slots: str = "bias_ih bias_hh h0 c0",
    lengths: list[int] | None = None,
    **attrs: Any,
) -> Case:
    directions, rows = 1 + attrs.get("bidirectional", False), GATES[op] * size
    count = layers * directions
    shape = (n, t, inputs) if attrs.get("batch_first") else (t, n, inputs)
    given: dict[str, Source | list[Source]] = {"x": Random(shape)}
    widths = [inputs if i < directions else directions * size for i in range(count)]
    given["weight_ih"] = [Random((rows, width), -0.5, 0.5) for width in widths]
    given["weight_hh"] = [Random((rows, size), -0.5, 0.5) for _ in widths]
    for slot in slots.split():
        if slot.startswith("bias"):
            given[slot] = [Random((rows,), -0.5, 0.5) for _ in widths]
        elif slot == "h0" or op == "lstm":
            given[slot] = Random((count, n, size))
    if lengths is not None:
        given["lengths"] = Values(lengths, "int64")
    return Case(op, given, reference(op), attrs, label=label, terms=64, ulps=8)


def cases(op: str) -> tuple[Case, ...]:
    """Return the test cases of one operator."""
    both = {"bidirectional": True}
    return (
        *(case(op, f"size-{n}", size=n) for n in (1, 7, 8, 9, 17)),
        *(case(op, f"batch-{n}", n=n, size=3) for n in (1, 7, 17)),
        case(op, "plain", slots=""),
        case(op, "bias-only", slots="bias_ih"),
        case(op, "states-only", slots="h0 c0"),
        case(op, "one-step", t=1),
        case(op, "no-steps", t=0),
        case(op, "empty", n=0),
        case(op, "layers", layers=3, slots="bias_ih bias_hh"),
        case(op, "both", **both),
        case(op, "both-layers", layers=2, **both),
        case(op, "batch-first", t=4, batch_first=True),
        case(op, "lengths", t=4, n=5, lengths=[4, 0, 2, 1, 3]),
        case(op, "all", 4, 3, layers=2, lengths=[2, 4, 3], batch_first=True, **both),
    )


def general(
    x: Array,
    weight_ih: list[Array],
    weight_hh: list[Array],
    bias_ih: list[Array] | None = None,
    bias_hh: list[Array] | None = None,
    peephole: list[Array] | None = None,
    weight_hr: list[Array] | None = None,
    h0: Array | None = None,
    c0: Array | None = None,
    lengths: Array | None = None,
    bidirectional: bool = False,
    batch_first: bool = False,
    clip: float = 0.0,
) -> tuple[Array, Array, Array]:
    source, directions = np.swapaxes(x, 0, 1) if batch_first else x, 1 + bidirectional
    (t, n), count = source.shape[:2], len(weight_ih)
    size, width = len(weight_hh[0]) // 4, weight_hh[0].shape[1]
    states, cells = np.zeros((count, n, width)), np.zeros((count, n, size))
    bound = clip or np.inf
    for first in range(0, count, directions):
        made = np.zeros((t, n, directions * width))
        for d, row in np.ndindex(directions, n):
            k = first + d
            h = np.zeros(width) if h0 is None else h0[k, row]
            c = np.zeros(size) if c0 is None else c0[k, row]
            end = t if lengths is None else int(lengths[row])
            for s in range(end)[:: -1 if d else 1]:
                a = weight_ih[k] @ source[s, row] + (bias_ih[k] if bias_ih else 0)
                i, f, g, o = (a + weight_hh[k] @ h + (bias_hh[k] if bias_hh else 0)).reshape(4, -1)
                p = peephole[k].reshape(3, -1) if peephole else np.zeros((3, size))
                i, f = (np.clip(part, -bound, bound) for part in (i + p[0] * c, f + p[1] * c))
                c = sigmoid(f) * c + sigmoid(i) * np.tanh(np.clip(g, -bound, bound))
                h = sigmoid(np.clip(o + p[2] * c, -bound, bound)) * np.tanh(c)
                h = weight_hr[k] @ h if weight_hr else h
                made[s, row, d * width : (d + 1) * width] = h
            states[k, row], cells[k, row] = h, c
        source = made
    return (np.swapaxes(source, 0, 1) if batch_first else source), states, cells


def general_case(
    label: str, n: int = 2, width: int = 4, layers: int = 1, slots: str = "", **options: Any
) -> Case:
    """Return a case of general_lstm with cell size 4 and hidden size `width`."""
    lengths = options.pop("lengths", None)
    directions = 1 + options.get("bidirectional", False)
    shape = (n, 3, 5) if options.get("batch_first") else (3, n, 5)
    widths = [5 if i < directions else directions * width for i in range(layers * directions)]
    given: dict[str, Source | list[Source]] = {"x": Random(shape)}
    given["weight_ih"] = [Random((16, columns), -0.5, 0.5) for columns in widths]
    given["weight_hh"] = [Random((16, width), -0.5, 0.5) for _ in widths]
    shapes = {"bias_ih": (16,), "bias_hh": (16,), "peephole": (12,), "weight_hr": (width, 4)}
    for slot in slots.split():
        if slot in shapes:
            given[slot] = [Random(shapes[slot], -0.5, 0.5) for _ in widths]
        else:
            given[slot] = Random((len(widths), n, width if slot == "h0" else 4))
    if lengths is not None:
        given["lengths"] = Values(lengths, "int64")
    return Case("general_lstm", given, general, options, label=label, terms=64, ulps=8)


EVERY = "bias_ih bias_hh peephole weight_hr h0 c0"

CASES = (
    *cases("lstm"),
    general_case("plain"),
    general_case("peepholes", slots="bias_ih peephole c0"),
    general_case("clipped", slots="bias_hh peephole", clip=0.3),
    general_case("projected", width=3, layers=2, slots="weight_hr h0", n=3, lengths=[2, 0, 3]),
    general_case("all", width=2, layers=2, slots=EVERY, bidirectional=True, batch_first=True),
    general_case("empty", n=0, slots="peephole"),
    case("gru", "reset-before", slots="bias_ih bias_hh h0", reset_after=False),
    case(
        "gru",
        "reset-before-both",
        4,
        3,
        layers=2,
        slots="",
        lengths=[2, 4, 3],
        reset_after=False,
        bidirectional=True,
        batch_first=True,
    ),
    *cases("gru"),
    *cases("rnn"),
    case("rnn", "relu", layers=2, activation="relu"),
    case("rnn", "relu-size", t=2, size=9, activation="relu", bidirectional=True),
)
