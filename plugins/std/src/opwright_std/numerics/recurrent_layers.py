"""Recurrent layers in NumPy: several layers, both directions, batch-first or time-major."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from opwright_std.numerics.dtypes import Array
from opwright_std.numerics.lengths import read_lengths
from opwright_std.numerics.recurrent import Kind, Parameters, Trace, run_back, run_steps

Listed = Sequence[Array]


def _pick(arrays: Listed | None, i: int) -> Array | None:
    return arrays[i] if arrays else None


def _valid(op_type: str, lengths: Array | None, steps: int, n: int) -> Array:
    """Return the mask of valid steps, [t, n, 1]."""
    counts = read_lengths(f"{op_type}: lengths", lengths, steps, n)
    return np.asarray(np.arange(steps)[:, None, None] < counts[:, None])


def _parameters(given: Sequence[Listed | None], i: int) -> Parameters:
    return Parameters(*(_pick(arrays, i) for arrays in given))


Ends: TypeAlias = "tuple[Array | None, Array | None]"
"""Initial or final states and cells of all layers and directions; None: zeros."""


def _ends(given: Ends, trace: Trace, i: int) -> tuple[Array, Array | None]:
    """Return the state and the cell of one layer and direction; None without a cell."""
    zeros = np.zeros(trace.states.shape[2:], trace.states.dtype)
    state, cell = (zeros if array is None else array[i] for array in given)
    return state, None if trace.cells is None else cell


def _part(trace: Trace, i: int) -> Trace:
    cells = None if trace.cells is None else trace.cells[i]
    return Trace(trace.gates[i], trace.states[i], cells)


def run_layers(
    op_type: str,
    kind: Kind,
    x: Array,
    weights: Sequence[Listed | None],
    first: Ends,
    lengths: Array | None,
    batch_first: bool,
    out: Array,
    last: tuple[Array, Array | None],
    trace: Trace,
) -> None:
    """Run all layers; `trace` and `last` begin with the axis of layers and directions."""
    layer = np.swapaxes(x, 0, 1) if batch_first else x
    valid = _valid(op_type, lengths, *layer.shape[:2])
    size = trace.states.shape[-1]
    directions = out.shape[-1] // max(size, 1) or 1
    for i in range(len(trace.states)):
        begin, is_reverse = _ends(first, trace, i), i % directions == 1
        state, cell = run_steps(
            kind, _parameters(weights, i), layer, begin, valid, is_reverse, _part(trace, i)
        )
        last[0][i] = state
        if last[1] is not None:
            last[1][i] = cell
        if i % directions == directions - 1:
            layer = _joined(trace.states, i // directions, directions, valid)
    np.copyto(out, np.swapaxes(layer, 0, 1) if batch_first else layer)


def _joined(states: Array, layer: int, directions: int, valid: Array) -> Array:
    """Return the output of a layer: the states of its directions concatenated, 0 in the padding."""
    both = states[layer * directions : (layer + 1) * directions]
    return np.where(valid, np.concatenate(list(both), axis=-1), 0).astype(states.dtype, copy=False)


def run_layers_back(
    op_type: str,
    kind: Kind,
    x: Array,
    weights: Sequence[Listed | None],
    first: Ends,
    lengths: Array | None,
    batch_first: bool,
    trace: Trace,
    grads_in: tuple[Array | None, Array | None, Array | None],
    x_grad: Array | None,
    weight_grads: Sequence[Listed | None],
    first_grads: Ends,
    directions: int,
) -> None:
    """Run all layers backward, from the last one."""
    start = np.swapaxes(x, 0, 1) if batch_first else x
    valid = _valid(op_type, lengths, *start.shape[:2])
    start = np.where(valid, start, x.dtype.type(0))  # padding may be NaN
    count, steps, n, size = trace.states.shape
    out_grad, *last_grads = grads_in
    if out_grad is None:
        flow = np.zeros((steps, n, directions * size), x.dtype)
    else:
        flow = np.swapaxes(out_grad, 0, 1) if batch_first else out_grad
    for layer in reversed(range(count // directions)):
        source = _joined(trace.states, layer - 1, directions, valid) if layer else start
        total = np.zeros(source.shape, x.dtype)
        for d in range(directions):
            i = layer * directions + d
            result = run_back(
                kind,
                _parameters(weights, i),
                source,
                _ends(first, trace, i),
                valid,
                d == 1,
                _part(trace, i),
                flow[..., d * size : (d + 1) * size],
                _ends((last_grads[0], last_grads[1]), trace, i),
                _parameters(weight_grads, i),
            )
            total += result.x
            for wanted, found in zip(first_grads, (result.state, result.cell), strict=True):
                if wanted is not None:
                    wanted[i] = found
        flow = total
    if x_grad is not None:
        np.copyto(x_grad, np.swapaxes(flow, 0, 1) if batch_first else flow)
