"""``append_backward(grads=)``: backpropagation starts from output gradients given by the caller."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from case import Case, is_float
from one_operator import build, compiled
from table import first_cases, graded_slots, over_cases
from test_gradients import add_loss, float_inputs, known_shape
from test_scan import VALUES, rnn_program

import opwright as ow
from opwright.errors import GradientError, VariableNotFoundError


def graded_cases() -> list[Case]:
    cases = [case for case in first_cases() if not case.no_grad and "float64" in case.dtypes]
    return [case for case in cases if graded_slots(case, case.make_inputs("float64"))]


def weighed_outputs(one: Any) -> list[Any]:
    """Return the outputs that `add_loss` weights."""
    slots = [s for s in one.definition.proto.outputs if not s.intermediate and not s.aliases]
    outputs = [variable for slot in slots for variable in one.outputs[slot.name]]
    return [variable for variable in outputs if is_float(np.dtype(variable.dtype))]


@over_cases(graded_cases())
def test_gradients_from_output_gradients_match_the_weighted_sum(case: Case) -> None:
    arrays = case.make_inputs("float64")
    one, other = build(case, arrays), build(case, arrays)
    pairs = ow.append_backward(add_loss(one), float_inputs(one, graded_slots(case, arrays)))
    expected = compiled(one.block, one.feeds, [grad for _, grad in pairs])(**one.feeds)

    grads = {}
    for variable in weighed_outputs(other):
        name = f"weight_of_{variable.name}"
        weight = one.feeds[name]
        grads[variable] = other.block.create_var(name, weight.shape, weight.dtype)
        assert weight.shape == known_shape(other, variable)
        other.feeds[name] = weight
    wanted = float_inputs(other, graded_slots(case, arrays))
    pairs = ow.append_backward(list(grads), wanted, grads=grads)
    results = compiled(other.block, other.feeds, [grad for _, grad in pairs])(**other.feeds)
    for result, array in zip(results, expected, strict=True):
        scale = 1e-12 * max(1.0, float(np.max(np.abs(array), initial=0.0)))
        np.testing.assert_allclose(result, array, rtol=1e-10, atol=scale)


def loop_gradients(seed: np.ndarray, values: dict[str, np.ndarray]) -> list[np.ndarray]:
    program = rnn_program()
    block = program.global_block()
    block.create_var("states_seed", [-1, 2, 4], "float64", is_data=True)
    targets = [block.var("states"), block.var("last")]
    pairs = ow.append_backward(targets, ["x", "h0", "w", "u"], grads={"states": "states_seed"})
    feeds = {**values, "states_seed": seed}
    return run(program, feeds, [grad for _, grad in pairs])


def run(program: Any, feeds: dict[str, np.ndarray], fetch: list[Any]) -> list[np.ndarray]:
    scope = ow.Scope()
    block = program.global_block()
    for name in [name for name in feeds if block.var(name).persistable]:
        scope.var(name).set(feeds[name])
    fed = {name: array for name, array in feeds.items() if not block.var(name).persistable}
    return ow.Network(block).compile(list(fed), fetch, scope=scope)(**fed)


def test_gradients_flow_through_a_loop_from_given_and_default_gradients() -> None:
    seed = np.random.default_rng(1).normal(size=(5, 2, 4))
    gradients = loop_gradients(seed, VALUES)

    def weighted(values: dict[str, np.ndarray]) -> float:
        states, last = run(rnn_program(), values, ["states", "last"])
        return float((states * seed).sum() + last.sum())

    rng = np.random.default_rng(2)
    for name, gradient in zip(["x", "h0", "w", "u"], gradients, strict=True):
        direction = rng.normal(size=VALUES[name].shape)
        ends = [{**VALUES, name: VALUES[name] + step * direction} for step in (1e-6, -1e-6)]
        difference = (weighted(ends[0]) - weighted(ends[1])) / 2e-6
        np.testing.assert_allclose((gradient * direction).sum(), difference, rtol=1e-6)


@pytest.fixture
def block() -> Any:
    block = ow.Program().global_block()
    block.create_var("x", [-1, 4], "float64", is_data=True)
    block.create_var("seed", [-1, 4], "float64", is_data=True)
    block.create_parameter("w", [4, 4], "float64")
    block.append_op("matmul", {"x": "x", "y": "w"}, {"out": "y"})
    block.append_op("exp", {"x": "y"}, {"out": "z"})
    return block


FEEDS = {"x": np.linspace(0, 1, 12).reshape(3, 4), "w": np.eye(4), "seed": np.ones((3, 4)) / 4}


def test_a_target_that_other_targets_depend_on_accumulates_both_gradients(block: Any) -> None:
    targets = [block.var("y"), block.var("z")]
    pairs = ow.append_backward(targets, ["y", "x"], grads={"z": "seed"})
    y_grad, x_grad = run(block.program, FEEDS, [grad for _, grad in pairs])
    expected = 1 + np.exp(FEEDS["x"]) / 4
    np.testing.assert_allclose(y_grad, expected)
    np.testing.assert_allclose(x_grad, expected)


def test_parameters_are_requested_by_default_and_no_grad_stops_gradients(block: Any) -> None:
    block.create_parameter("v", [4, 4], "float64")
    block.append_op("matmul", {"x": "z", "y": "v"}, {"out": "last"})
    pairs = ow.append_backward(block.var("last"), no_grad=["z"], grads={"last": "seed"})
    assert [(variable.name, grad.name) for variable, grad in pairs] == [("v", "v_grad")]


def test_a_second_gradient_flows_to_the_given_gradient(block: Any) -> None:
    ((_, first),) = ow.append_backward(block.var("z"), ["x"], grads={"z": "seed"})
    ((_, second),) = ow.append_backward(first, ["seed"])
    (result,) = run(block.program, FEEDS, [second])
    np.testing.assert_allclose(result, np.exp(FEEDS["x"]))


def test_a_clone_for_inference_has_no_gradient_operators_for_given_gradients(block: Any) -> None:
    ow.append_backward(block.var("z"), grads={"z": "seed"})
    clone = block.program.clone(for_inference=True)
    assert [op.type for op in clone.global_block().ops] == ["matmul", "exp"]


@pytest.mark.parametrize(
    ("grads", "message"),
    [
        ({"y": "seed"}, r"a key of grads must be a target, got 'y'; the targets are 'z'"),
        ({"z": "half"}, r"gradient of 'z' must be float64\[\?, 4\], got .*'half'"),
        (["z"], r"grads must map targets to variables, got \['z'\]"),
    ],
)
def test_a_given_gradient_must_match_a_target(block: Any, grads: Any, message: str) -> None:
    block.create_var("half", [-1, 2], "float64")
    text = str(block.program)
    with pytest.raises(GradientError, match=message):
        ow.append_backward(block.var("z"), grads=grads)
    assert str(block.program) == text


def test_a_given_gradient_must_be_a_variable_of_the_block(block: Any) -> None:
    with pytest.raises(VariableNotFoundError, match=r"grads: .*'sed'.*did you mean 'seed'"):
        ow.append_backward(block.var("z"), grads={"z": "sed"})
