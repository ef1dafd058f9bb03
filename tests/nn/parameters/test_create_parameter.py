"""create_parameter: custom layers work in programs and in a Model."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import (
    AttributeTypeError,
    AttributeValueError,
    DtypeError,
    ProgramError,
    ShapeError,
)
from opwright_nn import layers


def append_scaled(x, width=None, attr=None, name=None):
    weight = nn.create_parameter([nn.dim(x, -1) if width is None else width], name=name, attr=attr)
    return ow.ops.multiply(x, weight)


@pytest.fixture
def x():
    with ow.program_guard(ow.Program(), ow.Program()):
        yield layers.data("x", [None, 3])


def test_a_program_parameter_has_the_width_of_the_input(x):
    out = append_scaled(x, attr=nn.initializer.Constant(2.0))
    scope = ow.Scope()
    ow.Network(ow.default_startup_program().global_block()).run(scope)
    step = ow.Network(x.block).compile(["x"], [out.name], scope=scope)
    numbers = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(step(x=numbers)[0], 2 * numbers)
    assert [p.name for p in ow.default_main_program().parameters()] == ["param_0"]


def test_a_model_infers_the_shape_from_the_first_batch_and_trains_the_parameter():
    model = nn.Model()
    with model.guard():
        out = append_scaled(model.input("x"), attr=nn.initializer.Constant(1.0))
    loss = model.mean(out)
    model.backward(loss)
    model.sgd(learning_rate=1.0)
    copy = pickle.loads(pickle.dumps(model))
    for each in (model, copy):
        each.fill("x", np.ones((5, 4), np.float32))
        each.run()
        np.testing.assert_allclose(each.scope.var("param_0").numpy(), [0.75] * 4)


def test_parameters_with_two_axes_are_initialized_as_weights_and_all_others_as_biases(x):
    for shape in ([nn.dim(x, 1), 64], [64], []):
        nn.create_parameter(shape, name=f"p{len(shape)}")
    scope = ow.Scope()
    ow.Network(ow.default_startup_program().global_block()).run(scope)
    assert scope.var("p2").numpy().std() > 0
    assert not scope.var("p1").numpy().any()
    assert scope.var("p0").numpy() == 0


def test_an_existing_name_shares_the_parameter(x):
    shared = nn.ParamAttr(name="shared")
    first = nn.create_parameter([3], attr=shared)
    assert nn.create_parameter([nn.dim(x, 1)], attr=shared) is first
    with pytest.raises(ShapeError, match=r"shared parameter 'shared' must be \[4\], got \[3\]"):
        nn.create_parameter([4], attr=shared)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: nn.create_parameter(3), AttributeTypeError, "shape must be a list of sizes"),
        (lambda x: nn.create_parameter(nn.dim(x, 1)), AttributeTypeError, "a list of sizes"),
        (lambda x: nn.create_parameter([None]), AttributeValueError, r"write nn\.dim\(x, axis\)"),
        (lambda x: nn.create_parameter([-1]), AttributeValueError, r"write nn\.dim\(x, axis\)"),
        (lambda x: nn.create_parameter([-2]), AttributeValueError, r"shape\[0\] must be"),
        (lambda x: nn.create_parameter(["3"]), AttributeTypeError, r"shape\[0\] must be"),
        (lambda x: nn.create_parameter([3], "int64"), DtypeError, "must have a float dtype"),
        (lambda x: nn.create_parameter([3], attr=0.5), AttributeTypeError, "attr must be"),
        (lambda x: nn.create_parameter([3], name=""), AttributeValueError, "name"),
        (
            lambda x: nn.create_parameter([3], name="x"),
            ProgramError,
            "'x', which is another",
        ),
        (lambda x: nn.create_parameter([nn.dim(x, 0)]), ShapeError, r"got \[\?\]"),
        (lambda x: nn.dim(x, 2), AttributeValueError, "one of the 2 axes of x, got 2"),
        (lambda x: nn.dim(x, -3), AttributeValueError, "one of the 2 axes of x, got -3"),
        (lambda x: nn.dim("x", 0), AttributeTypeError, "variable must be"),
        (lambda x: nn.dim(x, 1.0), AttributeTypeError, "axis must be"),
    ],
)
def test_an_invalid_call_raises_and_changes_nothing(x, call, error, message):
    main, startup = ow.default_main_program(), ow.default_startup_program()
    before = str(main), str(startup)
    with pytest.raises(error, match=message):
        call(x)
    assert (str(main), str(startup)) == before
