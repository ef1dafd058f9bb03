"""Second gradients of every operator match central differences of first gradients."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from case import Array, Case, is_float
from one_operator import OneOperator, build, compiled, definition_of, graded_slots
from table import graded, over_cases
from test_gradients import (
    append,
    central_differences,
    float_inputs,
    known_shape,
    weighted_sum,
)

import opwright as ow
from every_case import EVERY
from opwright.errors import GradientError

ONCE = {
    "ctc_loss": "its gradient sums over alignments; PyTorch's cannot be differentiated either",
    "linear_chain_crf": "its gradient sums over paths",
    "lstm": "its steps are no operators; scan and lstm_cell are",
    "rnn": "its steps are no operators; scan and fc are",
    "sign": "its gradient is 0 everywhere, so nothing leads from it to x",
}
"""The operators that can be differentiated only once, and why."""

ONCE_WITH: dict[str, tuple[str, tuple[Any, ...]]] = {
    "embedding_bag": ("mode", ("max",)),  # no operator selects the rows
    "norm": ("p", (0.0,)),  # a count, whose gradient is 0 everywhere
    "pow_scalar": ("exponent", (0.0,)),
    "scatter": ("reduction", ("mul", "max", "min")),  # no operator selects the elements
    "scatter_nd": ("reduction", ("mul", "max", "min")),
}
"""An attribute, and its values with which an operator can be differentiated only once."""

ROUGH_AT_0 = (
    *("abs", "copysign", "fmod", "l1", "leaky_relu", "prelu", "relu", "relu6", "selu"),
    *("adaptive_max_pool2d", "max", "maximum", "median", "minimum", "nanmedian", "nanquantile"),
    *("atan2", "atan2_derivative", "hypot", "binary_cross_entropy", "cholesky"),
    *("deform_conv2d", "grid_sample", "roi_pool"),
)
"""Operators with a kink or a pole where an element is 0, or equal to another element."""

CASES_PER_OPERATOR = 2


def graded_cases() -> dict[str, list[Case]]:
    """Return the cases of each operator, largest first."""
    found: dict[str, list[Case]] = defaultdict(list)
    for case, dtype in graded():
        if dtype == "float64" and case.gradients is None:
            found[case.op].append(case)
    for cases in found.values():
        cases.sort(key=lambda case: -sum(a.size for a in inputs_of(case)))
    return found


def is_once(case: Case) -> bool:
    """Return whether the operator of a case can be differentiated only once."""
    name, values = ONCE_WITH.get(case.op, ("", ()))
    return case.op in ONCE or case.attrs.get(name) in values


def twice_cases() -> Iterator[Case]:
    """Yield the largest, or all, cases of each operator that can be differentiated twice."""
    for cases in graded_cases().values():
        twice = [case for case in cases if not is_once(case)]
        yield from twice if EVERY else twice[:CASES_PER_OPERATOR]


def cases_with_zeros() -> Iterator[Case]:
    """Yield the largest, or all, cases of each operator that is smooth at 0."""
    for op_type, cases in graded_cases().items():
        twice = [case for case in cases if not is_once(case) and op_type not in ROUGH_AT_0]
        yield from twice if EVERY else twice[:1]


def once_cases() -> Iterator[Case]:
    """Yield one case for each operator and attribute value for which `is_once` holds."""
    found: dict[tuple[str, Any], Case] = {}
    for cases in graded_cases().values():
        for case in filter(is_once, cases):
            name, _ = ONCE_WITH.get(case.op, ("", ()))
            found.setdefault((case.op, case.attrs.get(name)), case)
    return iter(found.values())


def inputs_of(case: Case) -> list[Array]:
    return [array for arrays in case.make_inputs("float64").values() for array in arrays]


class SumOfGradients(NamedTuple):
    """A weighted sum of first gradients, and the weights of gradients and outputs by name."""

    total: ow.Variable
    of_outputs: dict[str, Array]
    of_gradients: dict[str, Array]


def float_outputs(one: OneOperator) -> list[ow.Variable]:
    """Return the outputs that have a gradient."""
    return [
        variable
        for slot in one.definition.proto.outputs
        for variable in one.outputs[slot.name]
        if is_float(np.dtype(variable.dtype)) and not slot.intermediate and not slot.aliases
    ]


def add_squared_loss(one: OneOperator, weights: dict[str, Array]) -> ow.Variable:
    """Append ``sum(weight * out**2)``; its first gradient always depends on the inputs."""
    rng = np.random.default_rng(0)
    parts = []
    for variable in float_outputs(one):
        square = append(one.block, "multiply", {"x": variable, "y": variable})
        weight = np.asarray(rng.standard_normal(known_shape(one, variable)))
        weights[variable.name] = weight
        parts.append(weighted_sum(one, square, weight.astype(variable.dtype)))
    return append(one.block, "add_n", {"x": parts})


def add_sum_of_gradients(one: OneOperator, wanted: list[ow.Variable]) -> SumOfGradients:
    """Append the first gradients, and their sum with random weights."""
    of_outputs: dict[str, Array] = {}
    of_gradients: dict[str, Array] = {}
    pairs = ow.append_backward([add_squared_loss(one, of_outputs)], parameters=wanted)
    rng = np.random.default_rng(1)
    parts = []
    for variable, gradient in pairs:
        weight = np.asarray(rng.standard_normal(one.feeds[variable.name].shape))
        of_gradients[variable.name] = weight
        parts.append(weighted_sum(one, gradient, weight.astype(variable.dtype)))
    return SumOfGradients(append(one.block, "add_n", {"x": parts}), of_outputs, of_gradients)


@over_cases(twice_cases())
def test_second_gradient_agrees_with_central_differences_of_the_first(case: Case) -> None:
    compare_with_differences(case, case.make_inputs("float64"))


def compare_with_differences(case: Case, arrays: dict[str, list[Array]]) -> None:
    one = build(case, arrays)
    wanted = float_inputs(one, graded_slots(case, arrays))
    total = add_sum_of_gradients(one, wanted).total
    # Compiled before the second backward pass, since that pass replaces kernels with compositions.
    with np.errstate(all="ignore"):
        first = compiled(one.block, one.feeds, [total])
        differences = {v.name: central_differences(first, one.feeds, v.name) for v in wanted}
        pairs = ow.append_backward([total], parameters=wanted)
        fetch = [total, *(gradient for _, gradient in pairs)]
        value, *seconds = compiled(one.block, one.feeds, fetch)(**one.feeds)
        np.testing.assert_allclose(value, first(**one.feeds)[0], rtol=1e-9, atol=1e-9)
    for variable, second in zip(wanted, seconds, strict=True):
        directions, expected = differences[variable.name]
        size = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
        found = [float(np.sum(second * direction)) for direction in directions]
        np.testing.assert_allclose(
            found, expected, rtol=1e-5, atol=1e-6 * size, err_msg=f"{case}: {variable.name}"
        )


@over_cases(cases_with_zeros())
def test_second_gradient_agrees_with_central_differences_where_elements_are_0(case: Case) -> None:
    arrays = case.make_inputs("float64")
    for slot in graded_slots(case, arrays):
        for array in arrays[slot]:
            array.reshape(-1)[3::7] = 0
    with np.errstate(all="ignore"):
        compare_with_differences(case, arrays)


@over_cases(cases[0] for cases in graded_cases().values() if not is_once(cases[0]))
def test_a_gradient_is_linear_in_the_gradient_of_the_output(case: Case) -> None:
    """The gradient with respect to the output's gradient is the same where that is 0."""
    arrays = case.make_inputs("float64")
    one = build(case, arrays)
    wanted = float_inputs(one, graded_slots(case, arrays))
    outputs = float_outputs(one)
    rng = np.random.default_rng(0)
    seeds = {}
    for variable in outputs:
        name = f"{variable.name}_seed"
        one.feeds[name] = np.asarray(rng.standard_normal(known_shape(one, variable)))
        seeds[variable] = one.block.create_var(name, one.feeds[name].shape, "float64", is_data=True)
    firsts = ow.append_backward(outputs, wanted, grads=seeds)
    parts = []
    for variable, gradient in firsts:
        weight = np.asarray(rng.standard_normal(one.feeds[variable.name].shape))
        parts.append(weighted_sum(one, gradient, weight))
    total = append(one.block, "add_n", {"x": parts})
    pairs = ow.append_backward(total, list(seeds.values()), allow_unused=True)
    with np.errstate(all="ignore"):
        second = compiled(one.block, one.feeds, [gradient for _, gradient in pairs])
        found = second(**one.feeds)
        zeros = {seed.name: np.zeros_like(one.feeds[seed.name]) for seed in seeds.values()}
        at_zero = second(**{**one.feeds, **zeros})
    for result, expected in zip(at_zero, found, strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-12)


def test_every_once_differentiable_operator_has_a_case() -> None:
    values = sum(len(values) for _, values in ONCE_WITH.values())
    assert len(list(once_cases())) == len(ONCE) + values


@over_cases(once_cases())
def test_a_missing_second_gradient_is_reported_to_the_user(case: Case) -> None:
    arrays = case.make_inputs("float64")
    one = build(case, arrays)
    wanted = float_inputs(one, graded_slots(case, arrays))
    total = add_sum_of_gradients(one, wanted).total
    said = (
        rf"{case.op}.* (can be differentiated once|it has no second gradient)"
        "|got no operator on a path between them"
    )
    with pytest.raises(GradientError, match=said):
        ow.append_backward([total], parameters=wanted)
    assert definition_of(case).gradient is not None


ROOTS: dict[str, Callable[[Any], Any]] = {
    "std": lambda x: ow.ops.std(x, axis=[1]),
    "norm": lambda x: ow.ops.norm(x, axis=[1]),
    "norm-1.5": lambda x: ow.ops.norm(x, axis=[1], p=1.5),
    "norm-3": lambda x: ow.ops.norm(x, axis=[1], p=3.0),
    "norm-4": lambda x: ow.ops.norm(x, axis=[1], p=4.0),
    "hypot": lambda x: ow.ops.hypot(x, x),
    "lp_pool1d": lambda x: ow.ops.lp_pool1d(ow.ops.unsqueeze(x, axis=[0]), kernel=[3], p=2.0),
}


@pytest.mark.parametrize("name", ROOTS)
def test_second_gradients_of_a_root_of_0_are_0(name: str) -> None:
    def first(x: Array) -> Array:
        return ow.grad(lambda v: ow.ops.sum(ROOTS[name](v)))(x)

    zeros = np.zeros((2, 3))
    with np.errstate(all="ignore"):
        second = ow.grad(lambda v: ow.ops.sum(first(v) * np.array([1.0, 2.0, 3.0])))(zeros)
    np.testing.assert_array_equal(second, 0)


def grad_of_sum(function: Callable[..., Any], argnums: int) -> Callable[..., Any]:
    return ow.grad(lambda *args: ow.ops.sum(function(*args)), argnums)


def test_the_power_0_has_a_mixed_second_derivative() -> None:
    """Of x**y it is x**(y - 1) * (1 + y * ln(x)), 1 / x at y = 0, though x**0 is constant."""
    x, y = np.array([2.0, 4.0, 0.0]), np.zeros(3)
    of_base, of_exponent = (grad_of_sum(ow.ops.power, i) for i in range(2))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(of_base(x, y), 0.0)
        np.testing.assert_allclose(grad_of_sum(of_base, 1)(x, y), [0.5, 0.25, 0.0])
        np.testing.assert_allclose(grad_of_sum(of_exponent, 0)(x, y)[:2], [0.5, 0.25])


@pytest.mark.parametrize(
    ("op_type", "factor"), [("asin", 1.0), ("atan", -2.0), ("atanh", 2.0), ("tanh", -2.0)]
)
def test_second_derivatives_near_0_are_relatively_accurate(op_type: str, factor: float) -> None:
    x = np.array([1e-30, -1e-12, 1e-7])
    first = grad_of_sum(getattr(ow.ops, op_type), 0)
    np.testing.assert_allclose(grad_of_sum(first, 0)(x), factor * x, rtol=1e-12)


def test_second_gradients_of_a_binary_cross_entropy_of_certain_predictions_are_finite() -> None:
    x, label = np.array([0.0, 0.25, 1.0]), np.array([0.0, 1.0, 1.0])
    of_label = grad_of_sum(ow.ops.binary_cross_entropy, 1)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(of_label(x, label), [100.0, -np.log(1 / 3), -100.0])
        # The logarithms are clamped at 0 and 1.
        seconds = grad_of_sum(of_label, 0)(x, label)
        np.testing.assert_allclose(seconds, [-1.0, -1 / 0.25 - 1 / 0.75, -1.0])


def test_only_the_penalty_flows_through_operators_that_select_elements() -> None:
    block = ow.Program().global_block()
    x = block.create_var("x", [1, 1, 4, 4], "float64", is_data=True)
    w = block.create_var("w", [1, 1, 4, 4], "float64", is_data=True)
    shift = block.create_var("shift", [1], "float64", is_data=True)
    pooled = ow.ops.max_pool2d(x * w + shift, kernel=[2, 2])
    ((_, x_grad),) = ow.append_backward(ow.ops.sum(pooled), parameters=[x])
    total = ow.ops.sum(ow.ops.square(x_grad))
    # The shift affects only which elements are selected.
    pairs = ow.append_backward(total, parameters=[w, shift])
    rng = np.random.default_rng(3)
    feeds = {name: rng.normal(size=(1, 1, 4, 4)) for name in "xw"} | {"shift": np.array([0.5])}
    fetch = [x_grad, *(gradient for _, gradient in pairs)]
    of_x, of_w, of_shift = compiled(block, feeds, fetch)(**feeds)
    assert np.count_nonzero(of_x) == 4
    np.testing.assert_allclose(of_w, 2 * of_x)
    np.testing.assert_array_equal(of_shift, [0.0])
