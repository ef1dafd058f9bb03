"""For many rows, the gradients of recurrent layers process the steps in segments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import opwright as ow

GATES = {"lstm": 4, "gru": 3, "rnn": 1}
STEPS, SIZE, LAYERS = 7, 5, 3


def _make(op: str, inputs: int, rows: int, directions: int, dtype: str) -> dict[str, list[Any]]:
    """Return a list of arrays for each slot; x is time-major."""
    rng = np.random.default_rng(rows)

    def draw(*shape: int) -> np.ndarray:
        return rng.normal(0, 0.5, shape).astype(dtype)

    given: dict[str, list[Any]] = {"x": [draw(STEPS, rows, inputs)]}
    count, width = LAYERS * directions, GATES[op] * SIZE
    read = [inputs if i < directions else directions * SIZE for i in range(count)]
    given["weight_ih"] = [draw(width, n) for n in read]
    given["weight_hh"] = [draw(width, SIZE) for _ in range(count)]
    given["bias_ih"] = [draw(width) for _ in range(count)]
    given["bias_hh"] = [draw(width) for _ in range(count)]
    for slot in ("h0", "c0")[: 1 + (op == "lstm")]:
        given[slot] = [draw(count, rows, SIZE)]
    return given


def _differentiate(
    op: str,
    given: dict[str, list[Any]],
    library: str,
    passes: list[str] | None = None,
    **attrs: bool,
) -> list[np.ndarray]:
    """Return the gradients of a weighted sum of all outputs, computed by one library."""
    block = ow.Program().global_block()
    names = {slot: [f"{slot}_{i}" for i in range(len(a))] for slot, a in given.items()}
    arrays = {name: a for slot, some in given.items() for name, a in zip(names[slot], some)}
    for name, array in arrays.items():
        block.create_var(name, array.shape, str(array.dtype), is_data=True)
    slots = ("out", "h_n", "c_n")[: 2 + (op == "lstm")]
    block.append_op(op, names, {slot: slot for slot in slots}, attrs)
    for slot in slots:
        block.append_op("square", {"x": slot}, {"out": f"{slot}_2"})
        block.append_op("sum", {"x": f"{slot}_2"}, {"out": f"{slot}_3"})
    block.append_op("add_n", {"x": [f"{slot}_3" for slot in slots]}, {"out": "loss"})
    wanted = [name for slot in names for name in names[slot] if slot != "lengths"]
    pairs = ow.append_backward(block.var("loss"), parameters=wanted)
    fetch = [gradient.name for _, gradient in pairs]
    with ow.context_guard(ow.current_context().with_pins({op: library, f"{op}_grad": library})):
        network = ow.Network(block)
        return network.compile(feed=list(arrays), fetch=fetch, passes=passes)(**arrays)


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("inputs", [2, 9])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize(("rows", "directions", "has_lengths"), [
    (100, 1, False), (300, 1, False), (513, 1, False), (300, 1, True), (300, 2, True),
])  # fmt: skip
def test_gradients_in_segments_of_steps_match_the_reference(
    op: str, inputs: int, batch_first: bool, rows: int, directions: int, has_lengths: bool
) -> None:
    given = _make(op, inputs, rows, directions, "float64")
    if batch_first:
        given["x"] = [np.ascontiguousarray(np.swapaxes(given["x"][0], 0, 1))]
    if has_lengths:
        given["lengths"] = [np.arange(rows) % (STEPS + 1)]
    attrs = {"batch_first": batch_first, "bidirectional": directions == 2}
    native = _differentiate(op, given, "native", [], **attrs)
    reference = _differentiate(op, given, "numpy", **attrs)
    for ours, theirs in zip(native, reference, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9 * np.abs(theirs).max())
