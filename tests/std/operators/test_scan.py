"""scan: a block runs per element and carries its state, and gradients flow back through it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import opwright as ow
from opwright.errors import ShapeError

RNG = np.random.default_rng(5)
VALUES = {
    "x": RNG.normal(size=(5, 2, 3)),
    "h0": RNG.normal(size=(2, 4)),
    "w": RNG.normal(size=(3, 4)),
    "u": RNG.normal(size=(4, 4)),
}


def rnn_program(activation: str = "tanh", **attrs: Any) -> Any:
    """Return a program that iterates h = tanh(x[t] @ w + h @ u) and computes a loss of all h."""
    program = ow.Program()
    block = program.global_block()
    block.create_var("x", [-1, 2, 3], "float64", is_data=True)
    block.create_var("h0", [2, 4], "float64", is_data=True)
    block.create_parameter("w", [3, 4], "float64")
    block.create_parameter("u", [4, 4], "float64")
    body = program.create_block()
    body.create_var("h", [2, 4], "float64")
    body.create_var("x_t", [2, 3], "float64")
    cell(body, "x_t", "h", "next", activation)
    program.rollback()
    names = {"body_init": ["h"], "body_xs": ["x_t"], "body_final": ["next"], "body_out": ["next"]}
    outputs = {"final": ["last"], "out": ["states"]}
    block.append_op("scan", {"init": "h0", "xs": "x"}, outputs, {"body": body, **names, **attrs})
    add_loss(block, "states", "last")
    return program


def cell(block: Any, x: str, h: str, out: str, activation: str) -> None:
    block.append_op("matmul", {"x": x, "y": "w"}, {"out": f"{out}_a"})
    block.append_op("matmul", {"x": h, "y": "u"}, {"out": f"{out}_b"})
    block.append_op("add", {"x": f"{out}_a", "y": f"{out}_b"}, {"out": f"{out}_s"})
    inputs = dict.fromkeys(ow.op_proto(activation).input_slots, f"{out}_s")
    block.append_op(activation, inputs, {"out": out})


def add_loss(block: Any, states: str, last: str) -> None:
    block.append_op("multiply", {"x": states, "y": states}, {"out": "squares"})
    block.append_op("sum", {"x": "squares"}, {"out": "a_loss"})
    block.append_op("sum", {"x": last}, {"out": "b_loss"})
    block.append_op("add", {"x": "a_loss", "y": "b_loss"}, {"out": "loss"})


def unrolled_program(n: int, reverse: bool, activation: str = "tanh") -> Any:
    """Return a program of the same network, with its iterations unrolled into one block."""
    program = ow.Program()
    block = program.global_block()
    block.create_var("x", [n, 2, 3], "float64", is_data=True)
    block.create_var("h0", [2, 4], "float64", is_data=True)
    block.create_parameter("w", [3, 4], "float64")
    block.create_parameter("u", [4, 4], "float64")
    h, states = "h0", [""] * n
    for t in reversed(range(n)) if reverse else range(n):
        attrs = {"axes": [0], "starts": [t], "ends": [t + 1]}
        block.append_op("slice", {"x": "x"}, {"out": f"x{t}"}, attrs)
        block.append_op("reshape", {"x": f"x{t}"}, {"out": f"r{t}"}, {"shape": [2, 3]})
        cell(block, f"r{t}", h, f"h_{t}", activation)
        block.append_op("reshape", {"x": f"h_{t}"}, {"out": f"e{t}"}, {"shape": [1, 2, 4]})
        h, states[t] = f"h_{t}", f"e{t}"
    block.append_op("concat", {"x": states}, {"out": "states"}, {"axis": 0})
    add_loss(block, "states", h)
    return program


def run(program: Any, fetch: list[str], values: dict[str, Any] = VALUES, **options: Any) -> Any:
    scope = ow.Scope()
    block = program.global_block()
    for parameter in block.parameters():
        scope.var(parameter.name).set(values[parameter.name])
    feeds = {n: values[n] for n, v in block.vars.items() if v.is_data}
    step = ow.Network(block).compile(list(feeds), fetch, scope=scope, **options)
    return step(**feeds)


def gradients(program: Any, wanted: list[str]) -> list[str]:
    pairs = ow.append_backward(program.global_block().var("loss"), wanted)
    return [gradient.name for _, gradient in pairs]


def central_difference(
    program: Any, name: str, values: dict[str, Any] = VALUES, loss: str = "loss"
) -> Any:
    found = np.zeros_like(values[name])
    for index in np.ndindex(found.shape):
        ends = []
        for step in (1e-6, -1e-6):
            moved = {n: np.array(v) for n, v in values.items()}
            moved[name][index] += step
            ends.append(run(program, [loss], moved)[0])
        found[index] = (ends[0] - ends[1]) / 2e-6
    return found


@pytest.mark.parametrize("reverse", [False, True])
def test_a_recurrent_network_equals_its_unrolled_version_with_all_gradients(reverse: bool) -> None:
    wanted = ["x", "h0", "w", "u"]
    looped, unrolled = rnn_program(reverse=reverse), unrolled_program(5, reverse)
    results = [
        run(program, ["states", "loss", *gradients(program, wanted)])
        for program in (looped, unrolled)
    ]
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("name", ["x", "h0", "w", "u"])
def test_gradients_agree_with_central_differences(name: str) -> None:
    program = rnn_program()
    (gradient,) = gradients(program, [name])
    (found,) = run(program, [gradient])
    np.testing.assert_allclose(found, central_difference(program, name), atol=1e-7)


@pytest.mark.parametrize("activation", ["multiply", "tanh", "gelu"])
def test_a_second_gradient_agrees_with_central_differences_of_the_first(activation: str) -> None:
    program = rnn_program(activation)
    block = program.global_block()
    (first,) = gradients(program, ["u"])
    block.append_op("multiply", {"x": first, "y": first}, {"out": "norms"})
    block.append_op("sum", {"x": "norms"}, {"out": "norm"})
    pairs = ow.append_backward(block.var("norm"), ["w", "u", "x", "h0"])
    small = {name: value / 4 for name, value in VALUES.items()}
    for variable, gradient in pairs:
        (found,) = run(program, [gradient.name], small)
        expected = central_difference(program, variable.name, small, "norm")
        np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("n", [0, 1, 2, 33])
def test_a_scan_has_one_iteration_per_element(n: int) -> None:
    program = rnn_program()
    names = gradients(program, ["x", "h0", "w"])
    values = {**VALUES, "x": RNG.normal(size=(n, 2, 3))}
    states, last, x_grad, h_grad, w_grad = run(program, ["states", "last", *names], values)
    assert states.shape == (n, 2, 4)
    assert x_grad.shape == (n, 2, 3)
    h = values["h0"]
    for t in range(n):
        h = np.tanh(values["x"][t] @ values["w"] + h @ values["u"])
        np.testing.assert_allclose(states[t], h, rtol=1e-12)
    np.testing.assert_allclose(last, h, rtol=1e-12)
    if n == 0:
        np.testing.assert_array_equal(h_grad, np.ones((2, 4)))
        np.testing.assert_array_equal(w_grad, np.zeros((3, 4)))


def test_carried_variables_that_swap_keep_both_values() -> None:
    program = ow.Program()
    block = program.global_block()
    for name in "ab":
        block.create_var(name, [2], "float64", is_data=True)
    body = program.create_block()
    for name in "pq":
        body.create_var(name, [2], "float64")
    program.rollback()
    attrs = {"body": body, "body_init": ["p", "q"], "body_final": ["q", "p"], "length": 3}
    block.append_op("scan", {"init": ["a", "b"]}, {"final": ["c", "d"]}, attrs)
    values = {"a": np.array([1.0, 2.0]), "b": np.array([3.0, 4.0])}
    c, d = run(program, ["c", "d"], values)
    np.testing.assert_array_equal(c, values["b"])
    np.testing.assert_array_equal(d, values["a"])


def memory_bytes(program: Any) -> int:
    """Return the arena size of a plan that computes the loss."""
    scope = ow.Scope()
    for name in "wu":
        scope.var(name).set(VALUES[name])
    network = ow.Network(program.global_block())
    call = network.compile(["x", "h0"], ["loss"], scope=scope)
    prepared = network.plan_for({name: VALUES[name] for name in ("x", "h0")}, scope)
    call(x=VALUES["x"], h0=VALUES["h0"])
    return int(prepared.lowered.plan.arena_bytes)


def test_iterations_save_what_the_gradient_reads_and_unread_arrays_use_no_memory() -> None:
    program = rnn_program()
    without = memory_bytes(program)
    gradients(program, ["w"])
    scan = next(op for op in program.global_block().ops if op.type == "scan")
    assert scan.attrs["body_kept"] == ("next_s",)  # of which tanh_grad reads only the shape
    assert memory_bytes(program) <= 2 * without
    gradients(program, ["u"])
    scan = next(op for op in program.global_block().ops if op.type == "scan")
    assert scan.attrs["body_kept"] == ("next_s", "h")
    assert len(scan.output("kept")) == 2


def test_a_scan_is_preserved_by_printing_serialization_and_pruning() -> None:
    program = rnn_program()
    names = gradients(program, ["w", "u"])
    (wanted,) = run(program, [names[0]])
    read = ow.Program.from_proto(program.to_proto())
    assert str(read) == str(program)
    np.testing.assert_array_equal(run(read, [names[0]])[0], wanted)
    pruned = program.prune([names[0]])
    np.testing.assert_array_equal(run(pruned, [names[0]])[0], wanted)
    forward = program.prune(["states"])
    assert [op.type for op in forward.global_block().ops] == ["scan"]
    assert len(forward.blocks) == 2


def program_with(make: Callable[[Any], None], **attrs: Any) -> Any:
    """Return a program with one scan over x; `make` fills its body, which carries h."""
    program = ow.Program(seed=4)
    block = program.global_block()
    block.create_var("x", [-1, 3], "float64", is_data=True)
    block.create_var("h0", [3], "float64", is_data=True)
    body = program.create_block()
    body.create_var("h", [3], "float64")
    body.create_var("x_t", [3], "float64")
    make(body)
    program.rollback()
    names = {"body_init": ["h"], "body_xs": ["x_t"], "body_final": ["next"], "body_out": ["next"]}
    outputs = {"final": ["last"], "out": ["states"]}
    block.append_op("scan", {"init": "h0", "xs": "x"}, outputs, {"body": body, **names, **attrs})
    return program


ROWS = {"x": RNG.normal(size=(6, 3)), "h0": RNG.normal(size=3)}


def test_every_iteration_draws_new_random_numbers_which_its_gradient_reuses() -> None:
    def make(body: Any) -> None:
        attrs = {"probability": 0.5, "training": True}
        body.append_op("dropout", {"x": "x_t"}, {"out": "dropped"}, attrs)
        body.append_op("add", {"x": "h", "y": "dropped"}, {"out": "next"})

    program = program_with(make)
    block = program.global_block()
    block.append_op("sum", {"x": "last"}, {"out": "loss"})
    (gradient,) = gradients(program, ["x"])
    values = {"x": np.ones((40, 3)), "h0": np.zeros(3)}
    states, x_grad = run(program, ["states", gradient], values)
    dropped = np.diff(states, axis=0, prepend=np.zeros((1, 3)))
    assert len(np.unique(dropped, axis=0)) == 8
    np.testing.assert_array_equal(x_grad, dropped)


def test_an_error_in_an_iteration_names_the_operator_in_the_body() -> None:
    program = ow.Program()
    block = program.global_block()
    block.create_var("table", [4, 2], "float64", is_data=True)
    block.create_var("rows", [-1, 1], "int64", is_data=True)
    block.create_var("start", [1, 2], "float64", is_data=True)
    body = program.create_block()
    body.create_var("total", [1, 2], "float64")
    body.create_var("row", [1], "int64")
    body.append_op("gather", {"x": "table", "index": "row"}, {"out": "found"})
    body.append_op("add", {"x": "total", "y": "found"}, {"out": "next"})
    program.rollback()
    attrs = {"body": body, "body_init": ["total"], "body_xs": ["row"], "body_final": ["next"]}
    block.append_op("scan", {"init": "start", "xs": "rows"}, {"final": ["last"]}, attrs)
    values = {"table": np.ones((4, 2)), "start": np.zeros((1, 2))}
    (last,) = run(program, ["last"], {**values, "rows": np.array([[0], [3], [1]])})
    np.testing.assert_array_equal(last, [[3.0, 3.0]])
    with pytest.raises(ow.errors.KernelError, match=r"^gather\[cpu\]: operator 0 .*got .*9"):
        run(program, ["last"], {**values, "rows": np.array([[0], [9], [1]])})


def test_the_error_for_different_lengths_names_the_inputs() -> None:
    program = ow.Program()
    block = program.global_block()
    for name in "ab":
        block.create_var(name, [-1, 2], "float64", is_data=True)
    body = program.create_block()
    for name in ("p", "q"):
        body.create_var(name, [2], "float64")
    body.append_op("add", {"x": "p", "y": "q"}, {"out": "sum"})
    program.rollback()
    attrs = {"body": body, "body_xs": ["p", "q"], "body_out": ["sum"]}
    block.append_op("scan", {"xs": ["a", "b"]}, {"out": ["sums"]}, attrs)
    values = {"a": np.ones((3, 2)), "b": np.ones((3, 2))}
    np.testing.assert_array_equal(run(program, ["sums"], values)[0], np.full((3, 2), 2.0))
    with pytest.raises(ShapeError, match=r"scan: xs must be equally long .*'a' \[3\], 'b' \[4\]"):
        run(program, ["sums"], {**values, "b": np.ones((4, 2))})


@pytest.mark.parametrize(
    ("changed", "error", "rule"),
    [
        ({"body_final": ["h", "h"]}, ShapeError, "must have equally many variables"),
        (
            {"body_final": ["x_t"]},
            ShapeError,
            r"an iteration must return its carried values .*for 'h'",
        ),
        ({"body_xs": []}, ShapeError, "body_xs must have one variable for each of xs"),
        ({"body_out": ["h", "h"]}, ShapeError, "out must have as many variables as body_out"),
        ({"length": -1}, ow.errors.AttributeValueError, r"length must be in .*length=-1"),
        ({"length": 4}, ShapeError, "xs must have the same length along axis 0"),
    ],
)
def test_an_invalid_body_is_refused(changed: Any, error: Any, rule: str) -> None:
    program = ow.Program()
    block = program.global_block()
    block.create_var("x", [3, 2], "float64", is_data=True)
    block.create_var("h0", [5], "float64", is_data=True)
    body = program.create_block()
    body.create_var("h", [5], "float64")
    body.create_var("x_t", [2], "float64")
    program.rollback()
    names = {"body_init": ["h"], "body_xs": ["x_t"], "body_final": ["h"], "body_out": ["x_t"]}
    attrs = {"body": body, **names, **changed}
    with pytest.raises(error, match=f"scan: .*{rule}"):
        block.append_op("scan", {"init": "h0", "xs": "x"}, {"final": ["a"], "out": ["b"]}, attrs)


def test_a_scan_without_a_number_of_iterations_is_refused() -> None:
    program = ow.Program()
    block = program.global_block()
    block.create_var("h0", [5], "float64", is_data=True)
    body = program.create_block()
    body.create_var("h", [5], "float64")
    program.rollback()
    attrs = {"body": body, "body_init": ["h"], "body_final": ["h"]}
    with pytest.raises(ShapeError, match="xs or length must determine the number of iterations"):
        block.append_op("scan", {"init": "h0"}, {"final": ["last"]}, attrs)
