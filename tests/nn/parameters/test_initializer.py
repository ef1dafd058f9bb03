"""Initializers: distributions, and values that depend only on the seed and the layer."""

from __future__ import annotations

import math

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import AttributeTypeError, AttributeValueError
from opwright_nn import initializer, layers
from opwright_nn.initializer import fans


def fill(attr, shape=(200, 300), seed=0, dtype="float32"):
    """Return the values that an initializer writes into a weight of this shape."""
    with ow.program_guard(ow.Program(), ow.Program(seed=seed)) as (_, startup):
        x = layers.data("x", [None, shape[0]], dtype)
        layers.fc(x, shape[1], bias=False, name="a", param_attr=nn.ParamAttr(initializer=attr))
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    return scope.var("a_w_param").numpy()


@pytest.mark.parametrize(
    ("shape", "fan_in", "fan_out"),
    [
        ((), 1, 1),
        ((7,), 7, 7),
        ((3, 5), 3, 5),
        ((20, 3, 5, 5), 75, 500),
        ((0, 5), 0, 5),
    ],
)
def test_fan_in_and_fan_out_follow_from_the_shape(shape, fan_in, fan_out):
    assert fans(shape) == (fan_in, fan_out)


@pytest.mark.parametrize(
    ("attr", "mean", "std"),
    [
        (initializer.Constant(2.5), 2.5, 0.0),
        (initializer.Uniform(-1.0, 3.0), 1.0, 4 / math.sqrt(12)),
        (initializer.Normal(0.5, 2.0), 0.5, 2.0),
        (initializer.Xavier(), 0.0, math.sqrt(2 / 500)),
        (initializer.Xavier(gain=4.0, uniform=False), 0.0, 4 * math.sqrt(2 / 500)),
        (initializer.Kaiming(), 0.0, math.sqrt(2 / 200)),
        (initializer.Kaiming(negative_slope=1.0, uniform=False), 0.0, math.sqrt(1 / 200)),
    ],
)
def test_mean_and_standard_deviation_are_as_documented(attr, mean, std):
    weight = fill(attr).astype(np.float64)
    assert abs(weight.mean() - mean) <= 4 * std / math.sqrt(weight.size)
    assert abs(weight.std() - std) <= 0.02 * std


def test_uniform_stays_inside_its_interval():
    limit = math.sqrt(6 / 500)
    weight = fill(initializer.Xavier())
    assert np.abs(weight).max() <= np.float32(limit)
    assert np.abs(weight).max() > 0.99 * limit


def test_equal_seeds_draw_equal_numbers_and_different_seeds_do_not():
    attr = initializer.Normal()
    np.testing.assert_array_equal(fill(attr, seed=3), fill(attr, seed=3))
    assert not np.array_equal(fill(attr, seed=3), fill(attr, seed=4))
    fixed = initializer.Normal(seed=9)
    np.testing.assert_array_equal(fill(fixed, seed=3), fill(fixed, seed=4))


def test_two_weights_with_the_same_shape_get_different_values(programs):
    x = layers.data("x", [None, 8])
    layers.fc(layers.fc(x, 8), 8)
    scope = ow.Scope()
    ow.Network(programs[1].global_block()).run(scope)
    first, second = (scope.var(f"fc_{i}_w_param").numpy() for i in range(2))
    assert not np.array_equal(first, second)


def test_reinitializing_draws_the_same_numbers(programs):
    layers.fc(layers.data("x", [None, 8]), 8)
    scope = ow.Scope()
    network = ow.Network(programs[1].global_block())
    network.run(scope)
    first = scope.var("fc_0_w_param").numpy()
    network.run(scope)
    np.testing.assert_array_equal(scope.var("fc_0_w_param").numpy(), first)


@pytest.mark.parametrize(
    ("activation", "std"),
    [
        (None, math.sqrt(2 / 500)),
        ("tanh", math.sqrt(2 / 500)),
        ("sigmoid", 4 * math.sqrt(2 / 500)),
        ("relu", math.sqrt(2 / 200)),
        ("gelu", math.sqrt(2 / 200)),
    ],
)
def test_the_default_initializer_of_a_weight_depends_on_its_activation(programs, activation, std):
    layers.fc(layers.data("x", [None, 200]), 300, activation=activation)
    (op, *_) = programs[1].global_block().ops
    assert op.type == "uniform"
    assert op.attr("max") == pytest.approx(math.sqrt(3) * std)
    assert op.attr("min") == -op.attr("max")


def test_the_dtype_matches_the_parameter():
    assert fill(initializer.Xavier(), dtype="float64").dtype == np.float64


@pytest.mark.parametrize(
    ("make", "error", "rule"),
    [
        (lambda: initializer.Constant("0"), AttributeTypeError, "Constant: value must be a finite"),
        (lambda: initializer.Constant(math.nan), AttributeValueError, "Constant: value must be"),
        (lambda: initializer.Constant(10**400), AttributeValueError, "Constant: value must be"),
        (
            lambda: initializer.Normal(seed=2**63),
            AttributeValueError,
            r"seed must be an int in",
        ),
        (lambda: initializer.Uniform(1, 1), AttributeValueError, r"Uniform: max .* \(1, inf\)"),
        (lambda: initializer.Uniform(seed=-1), AttributeValueError, "Uniform: seed must be"),
        (lambda: initializer.Normal(std=-1), AttributeValueError, r"Normal: std .* \[0, inf\)"),
        (lambda: initializer.Normal(mean=True), AttributeTypeError, "Normal: mean must be"),
        (lambda: initializer.Xavier(gain=0), AttributeValueError, r"Xavier: gain .* \(0, inf\)"),
        (lambda: initializer.Xavier(uniform=1), AttributeTypeError, "Xavier: uniform must be"),
        (lambda: initializer.Kaiming("relu"), AttributeTypeError, "Kaiming: negative_slope must"),
        (lambda: initializer.Kaiming(seed=0.5), AttributeTypeError, "Kaiming: seed must be an int"),
    ],
)
def test_the_error_names_a_bad_argument(make, error, rule):
    with pytest.raises(error, match=rule):
        make()


SHAPES = [(), (0,), (7,), (0, 0), (0, 5), (5, 0), (3, 4), (2, 0, 3), (2**40, 2**40), (8, 4, 3, 3)]


@pytest.mark.parametrize("shape", SHAPES)
def test_deviations_are_finite_for_every_shape(shape):
    scaled = [initializer.Xavier(), *map(initializer.Kaiming, (0, -0.2, 1e200, -1e308))]
    for each in scaled:
        assert 0 <= each.std(shape) < 3
        _, attrs = each.describe(shape)
        assert all(math.isfinite(number) for number in attrs.values())


@pytest.mark.parametrize(
    ("make", "dtype"),
    [
        (lambda: initializer.Constant(1e39), "float32"),
        (lambda: initializer.Constant(-70000), "float16"),
        (lambda: initializer.Uniform(-3e38, 3e38), "float32"),
        (lambda: initializer.Uniform(-1e308, 1e308), "float64"),
        (lambda: initializer.Normal(std=1e38), "float32"),
        (lambda: initializer.Normal(mean=3.4e38, std=1e37), "bfloat16"),
        (lambda: initializer.Xavier(gain=3e39), "float32"),
    ],
)
def test_no_initial_value_is_infinite(make, dtype):
    with pytest.raises(AttributeValueError, match=f"within the range of {dtype}, got up to .* for"):
        fill(make(), dtype=dtype)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_largest_numbers_of_a_dtype_can_be_initial_values(dtype):
    greatest = float(np.finfo(dtype).max)
    assert (fill(initializer.Constant(-greatest), dtype=dtype) == -greatest).all()
    assert np.isfinite(fill(initializer.Uniform(-greatest / 2, greatest / 2), dtype=dtype)).all()
    assert np.isfinite(fill(initializer.Normal(std=greatest / 16), dtype=dtype)).all()


def test_the_kaiming_deviation_accounts_for_the_slope_of_the_activation():
    expected = math.sqrt(2 / (1 + 3**2) / 4)
    assert initializer.Kaiming(3).std((4, 5)) == pytest.approx(expected, rel=1e-14)
    assert initializer.Kaiming(1e200).std((4, 5)) == pytest.approx(math.sqrt(2 / 4) / 1e200)


def test_the_repr_of_an_initializer_shows_its_arguments():
    assert repr(initializer.Uniform(-1, 2)) == "Uniform(min=-1.0, max=2.0, seed=0)"
