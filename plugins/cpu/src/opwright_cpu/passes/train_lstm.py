"""``train_lstm``: makes an LSTM in training save its gates, but not its cells and states.

Cells and states can be computed from the gates. The recomputation is cheap in a backward step,
because the gates of the step are in the cache. An LSTM and its gradient are replaced together if no
other operator reads the saved values. The pre-activation gradients then overwrite the gates.
"""

from __future__ import annotations

from collections.abc import Sequence

from opwright.rewriting import (
    Graph,
    LoweredOp,
    Value,
    input_of,
    make_if_served,
    output_of,
    writer_of,
)

PART_ROWS = 512
"""Minimum number of rows in a chunk of steps, enough for efficient products."""

KEPT = ("gates", "states", "cells")
FORWARD_INPUTS = ("x", "weight_ih", "weight_hh", "bias_ih", "bias_hh", "h0", "c0", "lengths")
READ_AGAIN = ("x", "weight_ih", "weight_hh", "h0", "lengths")
BACKWARD_INPUTS = (*READ_AGAIN, "gates", "out_grad", "h_n_grad", "c_n_grad")

Slots = dict[str, Sequence[Value]]


def train_lstm(graph: Graph) -> None:
    """Replace each ``lstm`` and its only gradient by ``cpu.lstm_train`` and its gradient."""
    edit = graph.edit()
    for gradient in graph.of_type("lstm_grad"):
        forward = writer_of(input_of(gradient, "gates"), "lstm")
        if forward is None or not _is_alone(graph, forward, gradient):
            continue
        made = _make_both(graph, forward, gradient)
        if made is not None:
            edit.exchange({forward: made[0], gradient: made[1]})
    edit.apply()


def _is_alone(graph: Graph, forward: LoweredOp, gradient: LoweredOp) -> bool:
    """Return whether an LSTM is unidirectional and only `gradient` reads its saved values."""
    if forward.attrs["bidirectional"]:
        return False
    uses = graph.uses()
    kept = [output_of(forward, slot) for slot in KEPT]
    return all(
        value is not None
        and uses.only_reader(value) is gradient
        and input_of(gradient, slot) is value
        for slot, value in zip(KEPT, kept, strict=True)
    )


def _make_both(
    graph: Graph, forward: LoweredOp, gradient: LoweredOp
) -> tuple[LoweredOp, LoweredOp] | None:
    gates, cells = output_of(forward, "gates"), output_of(forward, "cells")
    if gates is None or cells is None:
        return None
    layers, steps, n, size = cells.meta.shape
    part_steps = max(1, PART_ROWS // max(n, 1))
    attrs = {"batch_first": forward.attrs["batch_first"], "part_steps": part_steps}
    parts = -(-steps // part_steps)
    marks = graph.value(cells.name, cells.meta._replace(shape=(layers, parts, n, size)))
    outputs = _outputs(forward, ("out", "h_n", "c_n", "gates"))
    run = make_if_served(
        graph,
        "cpu.lstm_train",
        _inputs(forward, FORWARD_INPUTS),
        {**outputs, "marks": marks},
        attrs,
        forward,
    )
    written = _outputs(gradient, [slot.name for slot in gradient.definition.proto.outputs])
    back = make_if_served(
        graph,
        "cpu.lstm_train_grad",
        {**_inputs(gradient, BACKWARD_INPUTS), "marks": marks},
        {**written, "sums_grad": graph.value(f"{gates.name}_grad", gates.meta)},
        attrs,
        gradient,
    )
    return None if run is None or back is None else (run, back)


def _inputs(op: LoweredOp, slots: Sequence[str]) -> Slots:
    """Return the values of the given input slots."""
    found = {slot: op.inputs[op.definition.input_index[slot]] for slot in slots}
    return {slot: values for slot, values in found.items() if values}


def _outputs(op: LoweredOp, slots: Sequence[str]) -> Slots:
    """Return the values of the requested output slots."""
    found = {slot: op.outputs[op.definition.output_index[slot]] for slot in slots}
    return {slot: values for slot, values in found.items() if values}
