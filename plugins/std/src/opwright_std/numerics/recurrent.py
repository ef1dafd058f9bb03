"""Recurrent layers in NumPy: one step of each kind, forward and backward, and sequences.

All arrays are time-major, [t, n, ...]. A step is computed from the contributions to the gate
pre-activations: ``x_part`` from x and bias_ih, and ``h_part`` from the state and bias_hh.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from opwright_std.numerics.dtypes import Array


class Step(NamedTuple):
    """Results of one step: the new state, the new cell and the values saved for its gradient."""

    state: Array
    cell: Array | None
    gates: Array


class StepGrads(NamedTuple):
    """Gradients of x_part, h_part, the old state where it is read directly, and the old cell."""

    x_part: Array
    h_part: Array
    state: Array | float
    cell: Array | None


class Kind(NamedTuple):
    """A kind of recurrent layer.

    Attributes
    ----------
    step : callable
        ``step(x_part, h_part, state, cell)``.
    back : callable
        ``back(gates, old_state, old_cell, new_cell, state_grad, cell_grad)``.
    """

    step: Callable[[Array, Array, Array, Array | None], Step]
    back: Callable[..., StepGrads]


def _sigmoid(x: Array) -> Array:
    # exp(-|x|) cannot overflow.
    power = np.exp(-np.abs(x))
    return np.where(x < 0, power / (1 + power), 1 / (1 + power)).astype(x.dtype, copy=False)


def _lstm_step(x_part: Array, h_part: Array, _: Array, cell: Array | None) -> Step:
    i, f, g, o = np.split(x_part + h_part, 4, axis=1)
    i, f, g, o = _sigmoid(i), _sigmoid(f), np.tanh(g), _sigmoid(o)
    new = f * cell + i * g
    return Step(o * np.tanh(new), new, np.concatenate([i, f, g, o], axis=1))


def _lstm_back(
    gates: Array, _: Array, cell: Array, new: Array, state_grad: Array, cell_grad: Array
) -> StepGrads:
    i, f, g, o = np.split(gates, 4, axis=1)
    tanh = np.tanh(new)
    inner = cell_grad + state_grad * o * (1 - tanh * tanh)
    parts = [
        inner * g * i * (1 - i),
        inner * cell * f * (1 - f),
        inner * i * (1 - g * g),
        state_grad * tanh * o * (1 - o),
    ]
    both = np.concatenate(parts, axis=1)
    return StepGrads(both, both, 0.0, inner * f)


def _gru_step(x_part: Array, h_part: Array, state: Array, _: Array | None) -> Step:
    (x_r, x_z, x_n), (h_r, h_z, h_n) = np.split(x_part, 3, axis=1), np.split(h_part, 3, axis=1)
    r, z = _sigmoid(x_r + h_r), _sigmoid(x_z + h_z)
    n = np.tanh(x_n + r * h_n)
    return Step((1 - z) * n + z * state, None, np.concatenate([r, z, n, h_n], axis=1))


def _gru_back(
    gates: Array, state: Array, _: Array, __: Array, state_grad: Array, ___: Array
) -> StepGrads:
    r, z, n, h_n = np.split(gates, 4, axis=1)
    n_grad = state_grad * (1 - z) * (1 - n * n)
    r_grad = n_grad * h_n * r * (1 - r)
    z_grad = state_grad * (state - n) * z * (1 - z)
    x_part = np.concatenate([r_grad, z_grad, n_grad], axis=1)
    h_part = np.concatenate([r_grad, z_grad, n_grad * r], axis=1)
    return StepGrads(x_part, h_part, state_grad * z, None)


def _tanh_step(x_part: Array, h_part: Array, _: Array, __: Array | None) -> Step:
    state = np.tanh(x_part + h_part)
    return Step(state, None, state)


def _tanh_back(
    gates: Array, _: Array, __: Array, ___: Array, grad: Array, ____: Array
) -> StepGrads:
    inner = grad * (1 - gates * gates)
    return StepGrads(inner, inner, 0.0, None)


def _relu_step(x_part: Array, h_part: Array, _: Array, __: Array | None) -> Step:
    state = np.maximum(x_part + h_part, 0)
    return Step(state, None, state)


def _relu_back(
    gates: Array, _: Array, __: Array, ___: Array, grad: Array, ____: Array
) -> StepGrads:
    inner = np.where(gates > 0, grad, 0)
    return StepGrads(inner, inner, 0.0, None)


LSTM_KIND = Kind(_lstm_step, _lstm_back)
GRU_KIND = Kind(_gru_step, _gru_back)
RNN_KINDS = {"tanh": Kind(_tanh_step, _tanh_back), "relu": Kind(_relu_step, _relu_back)}


class Parameters(NamedTuple):
    """The weights of one direction of one layer, or their gradients; biases may be None."""

    weight_ih: Array | None
    weight_hh: Array | None
    bias_ih: Array | None
    bias_hh: Array | None


def x_part_of(parameters: Parameters, x: Array) -> Array:
    """Return the contribution of x to the gate pre-activations."""
    product = x @ parameters.weight_ih.T  # type: ignore[union-attr]
    return product if parameters.bias_ih is None else product + parameters.bias_ih


def h_part_of(parameters: Parameters, state: Array) -> Array:
    """Return the contribution of the state to the gate pre-activations."""
    product = state @ parameters.weight_hh.T  # type: ignore[union-attr]
    return product if parameters.bias_hh is None else product + parameters.bias_hh


class Trace(NamedTuple):
    """Saved values of all steps in one direction of a layer, [t, n, ...]; cells only for LSTM."""

    gates: Array
    states: Array
    cells: Array | None


def run_steps(
    kind: Kind,
    parameters: Parameters,
    x: Array,
    first: tuple[Array, Array | None],
    valid: Array,
    backwards: bool,
    trace: Trace,
) -> tuple[Array, Array | None]:
    """Run all steps; return the last state and cell.

    Where `valid` [t, n, 1] is false, a row keeps its state and cell.
    """
    state, cell = first
    x_parts = x_part_of(parameters, x)
    for t in _order(len(x), backwards):
        step = kind.step(x_parts[t], h_part_of(parameters, state), state, cell)
        state = np.where(valid[t], step.state, state)
        trace.gates[t] = np.where(valid[t], step.gates, 0)
        trace.states[t] = state
        if cell is not None and trace.cells is not None:
            cell = np.where(valid[t], np.asarray(step.cell), cell)
            trace.cells[t] = cell
    return state, cell


def _order(steps: int, backwards: bool) -> Sequence[int]:
    return range(steps - 1, -1, -1) if backwards else range(steps)


class BackResult(NamedTuple):
    """Gradients of x, of the first state and of the first cell."""

    x: Array
    state: Array
    cell: Array | None


def run_back(
    kind: Kind,
    parameters: Parameters,
    x: Array,
    first: tuple[Array, Array | None],
    valid: Array,
    backwards: bool,
    trace: Trace,
    out_grad: Array,
    last_grads: tuple[Array, Array | None],
    grads: Parameters,
) -> BackResult:
    """Run all steps backward; write the requested parameter gradients."""
    state_grad, cell_grad = last_grads
    old_states = _before(trace.states, first[0], backwards)
    old_cells = None if trace.cells is None else _before(trace.cells, first[1], backwards)
    steps, n = x.shape[:2]
    width = len(parameters.weight_hh)  # type: ignore[arg-type]
    x_parts, h_parts = (np.zeros((steps, n, width), x.dtype) for _ in range(2))
    for t in reversed(_order(steps, backwards)):
        total = state_grad + np.where(valid[t], out_grad[t], 0)
        cells = (None, None) if old_cells is None else (old_cells[t], trace.cells[t])  # type: ignore[index]
        step = kind.back(trace.gates[t], old_states[t], *cells, total, cell_grad)
        np.copyto(x_parts[t], step.x_part, where=valid[t])
        np.copyto(h_parts[t], step.h_part, where=valid[t])
        before = step.state + h_parts[t] @ parameters.weight_hh
        state_grad = np.where(valid[t], before, total)
        if cell_grad is not None:
            cell_grad = np.where(valid[t], np.asarray(step.cell), cell_grad)
    rows = [parts.reshape(steps * n, width) for parts in (x_parts, h_parts)]
    _write_grads(grads, rows[0], rows[1], x, old_states)
    return BackResult(x_parts @ parameters.weight_ih, state_grad, cell_grad)


def _before(after: Array, first: Array | None, backwards: bool) -> Array:
    """Return the states before each step."""
    begin = np.asarray(first)[None]
    parts = [after[1:], begin] if backwards else [begin, after[:-1]]
    return np.concatenate(parts) if len(after) else after


def _write_grads(grads: Parameters, x_part: Array, h_part: Array, x: Array, state: Array) -> None:
    if grads.weight_ih is not None:
        np.matmul(x_part.T, x.reshape(len(x_part), x.shape[2]), out=grads.weight_ih)
    if grads.weight_hh is not None:
        np.matmul(h_part.T, state.reshape(len(h_part), state.shape[2]), out=grads.weight_hh)
    if grads.bias_ih is not None:
        np.sum(x_part, axis=0, out=grads.bias_ih)
    if grads.bias_hh is not None:
        np.sum(h_part, axis=0, out=grads.bias_hh)
