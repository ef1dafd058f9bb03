"""`grad` and `value_and_grad` differentiate functions composed of operators."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
from opwright.errors import GradientError

X = np.linspace(-1.0, 1.0, 5)
T = np.tanh(X)


def total(x):
    return ow.ops.sum(ow.ops.tanh(x))


def summed_gradient(f):
    return lambda x: ow.ops.sum(ow.grad(f)(x))


def test_the_gradient_of_a_function_composed_of_operators_is_its_derivative() -> None:
    np.testing.assert_allclose(ow.grad(total)(X), 1 - T**2)


def test_gradients_of_any_order_can_be_computed() -> None:
    second = ow.grad(summed_gradient(total))
    np.testing.assert_allclose(second(X), -2 * T * (1 - T**2))
    third = ow.grad(summed_gradient(summed_gradient(total)))
    np.testing.assert_allclose(third(X), (1 - T**2) * (6 * T**2 - 2))
    point = np.float64(0.5)
    expected = -2 * np.tanh(0.5) * (1 - np.tanh(0.5) ** 2)
    np.testing.assert_allclose(ow.grad(ow.grad(ow.ops.tanh))(point), expected)


def test_value_and_gradients_of_several_arguments_are_in_the_order_of_argnums() -> None:
    product = ow.value_and_grad(lambda x, y: ow.ops.sum(ow.ops.multiply(x, y)), argnums=(1, 0))
    value, (by_y, by_x) = product(X, X + 1)
    np.testing.assert_allclose(value, np.sum(X * (X + 1)))
    np.testing.assert_allclose(by_x, X + 1)
    np.testing.assert_allclose(by_y, X)


def test_a_function_is_recorded_once_for_each_shape_dtype_and_other_argument() -> None:
    calls = []

    def f(x, factor):
        calls.append(x.shape)
        return ow.ops.sum(ow.ops.scale(x, scale=factor))

    gradient = ow.grad(f)
    for array in (X, X + 1, X[:3], X.astype(np.float32)):
        result = gradient(array, 2.0)
        assert result.dtype == array.dtype
        np.testing.assert_allclose(result, np.full(array.shape, 2.0))
    np.testing.assert_allclose(gradient(X, 3.0), np.full(5, 3.0))
    assert len(calls) == 4


def test_the_gradient_is_an_array_of_the_same_library_as_the_argument() -> None:
    given = ow.runtime.Tensor.from_numpy(X)
    assert isinstance(ow.grad(total)(given), ow.runtime.Tensor)


def test_a_gradient_can_be_appended_to_any_program() -> None:
    program = ow.Program()
    x = program.global_block().create_var("x", [5], "float64", is_data=True)
    gradient = ow.grad(total)(x)
    run = ow.Network(program.global_block()).compile(["x"], [gradient])
    np.testing.assert_allclose(run(x=X)[0], 1 - T**2)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: ow.grad(ow.ops.tanh)(X), r"must return one scalar, got .*float64\[5\]"),
        (lambda: ow.grad(lambda x: 3)(X), "must return one scalar, got 3"),
        (lambda: ow.grad(total)(np.arange(3)), "argument 0 must be a float array"),
        (lambda: ow.grad(total, argnums=2)(X), "must name positional arguments, got 2 for 1"),
        (lambda: ow.grad(lambda x, y: total(x))(X, {}), "must be hashable, got unhashable type"),
    ],
)
def test_the_error_for_a_missing_gradient_suggests_a_fix(call, said) -> None:
    with pytest.raises(GradientError, match=said):
        call()
