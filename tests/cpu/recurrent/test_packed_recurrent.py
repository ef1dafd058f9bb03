"""Constant recurrent weights are packed only once."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from thread_counts import thread_counts

import opwright as ow
from opwright.errors import OpwrightError

GATES = {"lstm": 4, "gru": 3}
STEPS, INPUTS, SIZE = 3, 5, 6


def make_layer(op: str, size: int = SIZE) -> tuple[ow.Program, ow.Scope]:
    """Return a layer with constant weights that reads ``x`` [steps, any rows, inputs]."""
    program, scope = ow.Program(), ow.Scope()
    block, width = program.global_block(), GATES[op] * size
    shapes = {"weight_ih": [width, INPUTS], "weight_hh": [width, size]}
    rng = np.random.default_rng(2)
    block.create_var("x", [STEPS, None, INPUTS], is_data=True)
    for name, shape in shapes.items():
        block.create_var(name, shape, persistable=True, stop_gradient=True)
        scope.var(name).set(rng.standard_normal(shape).astype("float32"))
    slots = {name: [name] for name in shapes}
    outputs = ("out", "h_n", "c_n")[: 2 + (op == "lstm")]
    block.append_op(op, {"x": "x", **slots}, {slot: slot for slot in outputs})
    return program, scope


@pytest.mark.parametrize("op", GATES)
def test_weights_are_packed_once_for_all_runs_and_plans(op: str) -> None:
    program, scope = make_layer(op)
    gc.collect()
    before = ow.memory().packed_bytes
    run = ow.Network(program.global_block()).compile(feed=["x"], fetch=["out"], scope=scope)
    first = run(x=np.ones((STEPS, 2, INPUTS), "float32"))[0]
    packed = ow.memory().packed_bytes - before
    assert packed >= GATES[op] * SIZE * (INPUTS + SIZE) * 4
    for rows in (2, 2, 3, 7):
        again = run(x=np.ones((STEPS, rows, INPUTS), "float32"))[0]
        np.testing.assert_allclose(again[:, :2], first, rtol=1e-6, atol=1e-6)
    assert ow.memory().packed_bytes - before == packed


@pytest.mark.parametrize("name", ["weight_ih", "weight_hh"])
@pytest.mark.parametrize("op", GATES)
def test_constant_weights_of_a_different_shape_are_refused(op: str, name: str) -> None:
    program, scope = make_layer(op)
    run = ow.Network(program.global_block()).compile(feed=["x"], fetch=["out"], scope=scope)
    x = np.ones((STEPS, 2, INPUTS), "float32")
    first = run(x=x)[0].copy()
    weight = scope.var(name).numpy()
    for wrong in (weight[:-1], weight[:, :-1], np.ones((1, 1), "float32")):
        scope.var(name).set(np.ascontiguousarray(wrong))
        with pytest.raises(OpwrightError, match=name):
            run(x=x)
    scope.var(name).set(weight)
    np.testing.assert_array_equal(run(x=x)[0], first)


n_threads = thread_counts(2)


@pytest.mark.parametrize("op", GATES)
def test_results_are_bitwise_identical_if_the_product_of_one_row_is_divided_among_threads(
    op: str, n_threads: int
) -> None:
    program, scope = make_layer(op, size=320)  # wide enough for two threads
    x = np.random.default_rng(4).standard_normal((STEPS, 1, INPUTS), dtype="float32")
    results = []
    for count in (n_threads, 1):
        ow.set_num_threads(count)
        network = ow.Network(program.global_block())
        run = network.compile(feed=["x"], fetch=["out", "h_n"], scope=scope)
        results.append([np.array(array) for array in run(x=x)])
    for shared, alone in zip(*results, strict=True):
        np.testing.assert_array_equal(shared, alone)
