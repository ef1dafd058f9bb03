"""The gradients of lstm, gru and rnn, by a backward pass and then products over all steps."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from opwright.kernel import PrepareContext
from opwright.op import Meta
from opwright_cuda.dtypes import CTYPES, compute_dtype
from opwright_cuda.kernels.elementwise import operand
from opwright_cuda.kernels.lengths import launch_check
from opwright_cuda.kernels.recurrent_layers import (
    Layers,
    copy_or_clear,
    describe_layers,
)
from opwright_cuda.kernels.reduction import launch_reduction, total_of
from opwright_cuda.kernels.seen import Weighing, add_seen_product
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, Pointer, Struct
from opwright_cuda.products import (
    Operands,
    add_either_product,
    describe_product,
    repeated_product,
)


class _Room(NamedTuple):
    """Memory reused by all directions.

    The gradients of the contributions of x are in the order of x; the gradients of the
    contributions of h are time-major. The two gradients share memory if their order and values are
    equal.
    """

    of_x: Pointer
    of_h: Pointer
    of_h_now: Pointer
    direct: Pointer
    through: Pointer
    cell: Pointer | None
    old_states: Pointer
    old_cells: Pointer | None


def _make_room(plan: LaunchPlan, layers: Layers) -> _Room:
    of_step, of_all = layers.n * layers.size, layers.rows * layers.size
    of_x = layers.memory(plan, layers.rows * layers.width)
    is_one = layers.kind != "gru" and not layers.is_batch_first
    return _Room(
        of_x,
        of_x if is_one else layers.memory(plan, layers.rows * layers.width),
        layers.memory(plan, layers.n * layers.width),
        layers.sums(plan, of_step),
        layers.sums(plan, of_step),
        layers.sums(plan, of_step) if layers.has_cell else None,
        layers.memory(plan, of_all),
        layers.memory(plan, of_all) if layers.has_cell else None,
    )


def _shift(plan: LaunchPlan, layers: Layers, i: int, slots: tuple[str, str], to: Pointer) -> None:
    """Add the launches that copy the state after each step to the state before the next."""
    if layers.steps == 0:
        return
    kept, first = layers.part(plan.input(slots[0]), i, layers.size), plan.optional_input(slots[1])
    size = layers.state_bytes
    rest = (layers.steps - 1) * size
    begin, others, read = (rest, 0, size) if layers.is_reverse(i) else (0, size, 0)
    copy_or_clear(plan, to + begin, layers.end(first, i), size)
    plan.copy(to + others, kept + read, rest)


def _add_steps(
    ctx: PrepareContext,
    plan: LaunchPlan,
    layers: Layers,
    i: int,
    room: _Room,
    out_grad: Pointer | None,
) -> None:
    """Add all backward steps of a direction, and the gradients of its first state and cell."""
    _shift(plan, layers, i, ("states", "h0"), room.old_states)
    if room.old_cells is not None:
        _shift(plan, layers, i, ("cells", "c0"), room.old_cells)
    kept: list[Pointer | None] = [
        None if layers.kind == "rnn" else layers.part(plan.input("gates"), i, 4 * layers.size),
        layers.part(plan.input("states"), i, layers.size),
        layers.part(plan.input("cells"), i, layers.size) if layers.has_cell else None,
    ]
    trace = Struct(*kept, room.old_states, room.old_cells)
    to = Struct(room.of_x, room.of_h, room.of_h_now, np.int64(layers.size))
    ends = [layers.end(plan.optional_input("h_n_grad"), i), None]
    if layers.has_cell:
        ends[1] = layers.end(plan.optional_input("c_n_grad"), i)
    shapes = (layers.n, layers.width), (layers.width, layers.size)
    product = describe_product(*shapes, False, False, layers.dtype, compute_dtype(layers.dtype))
    multiply = repeated_product(plan, product)
    n = layers.n * layers.size
    through = None
    for t in reversed(layers.order(i)):
        flow = Struct(room.direct, room.cell, through, *ends)
        arguments: list[Argument] = [to, flow, out_grad, trace, layers.direction(plan, i)]
        layers.launch(plan, "layer_step_back", layers.step_types, n, [*arguments, np.int64(t)])
        multiply(Operands(room.of_h_now, plan.input("weight_hh", i), room.through))
        through = room.through
    firsts = [layers.end(_optional_output(ctx, plan, slot), i) for slot in ("h0_grad", "c0_grad")]
    if any(first is not None for first in firsts):
        flow = Struct(room.direct, room.cell, through, *ends)
        layers.launch(plan, "first_grads", CTYPES[layers.dtype], n, [*firsts, flow, np.int64(n)])


def _optional_output(ctx: PrepareContext, plan: LaunchPlan, slot: str) -> Pointer | None:
    return plan.output(slot) if ctx.outputs.get(slot) else None


def _write_parameters(
    ctx: PrepareContext, plan: LaunchPlan, layers: Layers, i: int, room: _Room, source: Pointer
) -> None:
    """Add the requested gradients of the weights and biases of a direction."""
    sums = Meta((layers.rows, layers.width), layers.dtype)
    for part, read, width, name in (
        (room.of_x, source, layers.inputs_of(i), "ih"),
        (room.of_h, room.old_states, layers.size, "hh"),
    ):
        if ctx.outputs[f"weight_{name}_grad"]:
            operands = Operands(part, read, plan.output(f"weight_{name}_grad", i))
            weighing = Weighing(1, layers.width, layers.rows, width, True, layers.dtype)
            hides = bool(ctx.inputs["lengths"]) and name == "ih"
            add_seen_product(plan, weighing, operands, hides)
        metas = ctx.outputs[f"bias_{name}_grad"]
        if metas:
            out = operand(plan.output(f"bias_{name}_grad", i), metas[i])
            launch_reduction(plan, total_of(layers.dtype), operand(part, sums), [0], out)


def _add_x_grad(
    plan: LaunchPlan, layers: Layers, i: int, room: _Room, out: Pointer, parts: list[Pointer]
) -> None:
    """Add the input gradient of a direction; the second direction adds to the first."""
    width, wide = layers.inputs_of(i), compute_dtype(layers.dtype)
    shapes = (layers.rows, layers.width), (layers.width, width)
    made = parts[i % 2] if parts else out
    product = describe_product(*shapes, False, False, layers.dtype, wide if parts else None)
    add_either_product(plan, product, Operands(room.of_x, plan.input("weight_ih", i), made))
    if parts and i % 2 == 1:
        n = layers.rows * width
        arguments: list[Argument] = [out, *parts, np.int64(n)]
        layers.launch(plan, "add_directions", CTYPES[layers.dtype], n, arguments)


def _joined(plan: LaunchPlan, layers: Layers, layer: int, out: Pointer) -> Pointer:
    """Add the input of the next layer, from the states of its directions."""
    types = f"{CTYPES[layers.dtype]}, {layers.length_type}"
    for i in range(layer * layers.directions, (layer + 1) * layers.directions):
        states = layers.part(plan.input("states"), i, layers.size)
        arguments: list[Argument] = [out, states, layers.direction(plan, i)]
        layers.launch(plan, "join_states", types, layers.rows * layers.size, arguments)
    return out


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Run the layers in reverse, from the last layer to the first."""
    layers = describe_layers(ctx)
    launch_check(ctx, plan, layers.kind, layers.steps)
    room = _make_room(plan, layers)
    n_layers, n_out = layers.n_parts // layers.directions, layers.rows * layers.out_width
    joined = layers.memory(plan, n_out if n_layers > 1 else 0)
    flows = [layers.memory(plan, n_out if n_layers > 1 else 0) for _ in range(2)]
    widest = max(layers.inputs, layers.out_width) * layers.rows
    both = range(2 if layers.directions == 2 else 0)
    parts = [layers.sums(plan, widest) for _ in both]
    x_grad = _optional_output(ctx, plan, "x_grad")
    flow = plan.optional_input("out_grad")
    for layer in reversed(range(n_layers)):
        source = _joined(plan, layers, layer - 1, joined) if layer else plan.input("x")
        out = flows[layer % 2] if layer else x_grad
        for i in range(layer * layers.directions, (layer + 1) * layers.directions):
            _add_steps(ctx, plan, layers, i, room, flow)
            _write_parameters(ctx, plan, layers, i, room, source)
            if out is not None:
                _add_x_grad(plan, layers, i, room, out, parts)
        flow = out


LAYERS_GRAD: Final = Kernel(_fill_in)
"""lstm_grad, gru_grad and rnn_grad."""
