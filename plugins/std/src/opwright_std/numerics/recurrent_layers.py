"""Recurrent layers in NumPy: several layers, both directions, batch-first or time-major.

Arguments are mappings from slot names to arrays; absent arrays are None or missing keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from opwright_std.numerics.dtypes import Array
from opwright_std.numerics.lengths import read_lengths
from opwright_std.numerics.recurrent import Kind, Parameters, Trace, run_back, run_steps

Slots = Mapping[str, Any]


def _valid(op_type: str, lengths: Array | None, steps: int, n: int) -> Array:
    """Return the mask of valid steps, [t, n, 1]."""
    counts = read_lengths(f"{op_type}: lengths", lengths, steps, n)
    return np.asarray(np.arange(steps)[:, None, None] < counts[:, None])


def _pick(slots: Slots, i: int, *names: str) -> list[Any]:
    """Return the arrays of one layer and direction, with None for absent arrays."""
    return [slots[name][i] if slots.get(name) else None for name in names]


def _ends(slots: Slots, trace: Trace, i: int, *names: str) -> tuple[Array, Array | None]:
    """Return state and cell of a layer and direction, 0 if absent; without cells, cell is None."""
    zeros = np.zeros(trace.states.shape[1:], trace.states.dtype)
    state, cell = (zeros if slots.get(name) is None else slots[name][i] for name in names)
    return state, None if trace.cells is None else cell


def _trace(slots: Slots, i: int) -> Trace:
    cells = slots.get("cells")
    gates = slots.get("gates", slots["states"])
    return Trace(gates[i], slots["states"][i], None if cells is None else cells[i])


def _swapped(x: Array, batch_first: bool) -> Array:
    return np.swapaxes(x, 0, 1) if batch_first else x


def run_layers(op_type: str, kind: Kind, slots: Slots, directions: int, batch_first: bool) -> None:
    """Run all layers."""
    layer = _swapped(slots["x"], batch_first)
    valid = _valid(op_type, slots["lengths"], *layer.shape[:2])
    for i in range(len(slots["states"])):
        parameters = Parameters(*_pick(slots, i, "weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        trace, is_reverse = _trace(slots, i), i % directions == 1
        first = _ends(slots, trace, i, "h0", "c0")
        last = run_steps(kind, parameters, layer, first, valid, is_reverse, trace)
        slots["h_n"][i] = last[0]
        if trace.cells is not None:
            slots["c_n"][i] = last[1]
        if i % directions == directions - 1:
            layer = _joined(slots["states"], i // directions, directions, valid)
    np.copyto(slots["out"], _swapped(layer, batch_first))


def _joined(states: Array, layer: int, directions: int, valid: Array) -> Array:
    """Return the output of a layer: the states of its directions concatenated, 0 in the padding."""
    both = states[layer * directions : (layer + 1) * directions]
    return np.where(valid, np.concatenate(list(both), axis=-1), 0).astype(states.dtype, copy=False)


def run_layers_back(
    op_type: str, kind: Kind, slots: Slots, directions: int, batch_first: bool
) -> None:
    """Run all layers backward, from the last layer."""
    x, states = _swapped(slots["x"], batch_first), slots["states"]
    valid = _valid(op_type, slots["lengths"], *x.shape[:2])
    start = np.where(valid, x, x.dtype.type(0))  # padding may be NaN
    count, steps, n, size = states.shape
    if slots["out_grad"] is None:
        flow = np.zeros((steps, n, directions * size), x.dtype)
    else:
        flow = _swapped(slots["out_grad"], batch_first)
    for layer in reversed(range(count // directions)):
        source = _joined(states, layer - 1, directions, valid) if layer else start
        total = np.zeros(source.shape, x.dtype)
        for d in range(directions):
            part = flow[..., d * size : (d + 1) * size]
            total += _run_back(kind, slots, layer * directions + d, source, valid, d == 1, part)
        flow = total
    if slots["x_grad"] is not None:
        np.copyto(slots["x_grad"], _swapped(flow, batch_first))


def _run_back(
    kind: Kind, slots: Slots, i: int, x: Array, valid: Array, is_reverse: bool, out_grad: Array
) -> Array:
    """Run one direction of a layer backward; return the gradient of its input."""
    grads = (f"{name}_grad" for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    weight_ih, weight_hh = _pick(slots, i, "weight_ih", "weight_hh")
    trace = _trace(slots, i)
    result = run_back(
        kind,
        Parameters(weight_ih, weight_hh, None, None),
        x,
        _ends(slots, trace, i, "h0", "c0"),
        valid,
        is_reverse,
        trace,
        out_grad,
        _ends(slots, trace, i, "h_n_grad", "c_n_grad"),
        Parameters(*_pick(slots, i, *grads)),
    )
    for name, grad in (("h0_grad", result.state), ("c0_grad", result.cell)):
        if slots.get(name) is not None:
            slots[name][i] = grad
    return result.x
