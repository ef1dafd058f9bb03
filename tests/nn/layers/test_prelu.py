"""prelu and bilinear: parameters and errors; tests/peers compares values with PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import opwright_nn as nn
from opwright.errors import AttributeTypeError, AttributeValueError, ShapeError
from opwright_nn import layers


def test_prelu_has_one_slope_or_one_slope_per_channel():
    model = nn.Model()
    h = model.prelu(model.prelu("x", name="one"), per_channel=True, name="many")
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    model.initialize_parameters(x=x)
    assert [parameter.shape for parameter in model.parameters] == [(1,), (3, 1)]
    slopes = np.array([[0.5], [2.0], [-1.0]], np.float32)
    model.fill("many_w_param", slopes)
    expected = np.where(x > 0, x, 0.25 * slopes * x)
    np.testing.assert_allclose(model.predict(h, x=x), expected, rtol=1e-6)


def test_bilinear_sums_all_pairs():
    model = nn.Model()
    out = model.bilinear("x", "y", 5)
    rng = np.random.default_rng(0)
    x, y = rng.random((2, 3), np.float32), rng.random((2, 4), np.float32)
    model.initialize_parameters(x=x, y=y)
    shapes = {parameter.name: parameter.shape for parameter in model.parameters}
    assert shapes == {"bilinear_0_w_param": (5, 3, 4), "bilinear_0_b_param": (5,)}
    weight = model.scope.var("bilinear_0_w_param").numpy()
    expected = np.einsum("ni,kij,nj->nk", x, weight, y)
    np.testing.assert_allclose(model.predict(out, x=x, y=y), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "error", "rule"),
    [
        (lambda x: layers.prelu(x, 1), AttributeTypeError, "prelu: per_channel must be True or"),
        (lambda x: layers.prelu(x, True), ShapeError, r"prelu: input must be \[n, channels, ...\]"),
        (lambda x: layers.prelu(1), AttributeTypeError, "prelu: input must be a variable"),
        (lambda x: layers.bilinear(x, x, 0), AttributeValueError, "bilinear: size must be an int"),
        (lambda x: layers.bilinear(x, 3, 1), AttributeTypeError, "bilinear: y must be a variable"),
        (
            lambda x: layers.bilinear(x, x, 1, bias=False, bias_attr=nn.ParamAttr("b")),
            AttributeValueError,
            "bilinear: bias_attr must be left out with bias=False",
        ),
    ],
)
def test_the_error_names_a_bad_argument_and_nothing_changes(programs, snapshot, call, error, rule):
    x = layers.data("x", [8])
    before = snapshot()
    with pytest.raises(error, match=rule):
        call(x)
    assert snapshot() == before
