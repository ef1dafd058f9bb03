"""nn.find_nan: names the operator that produced the first NaN or infinity."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import AttributeTypeError, FeedError, VariableNotFoundError
from opwright_nn import layers


def test_the_result_names_the_operator_that_produces_a_nan(programs):
    x = layers.data("x", [None, 3])
    root = ow.ops.sqrt(ow.ops.exp(x) - 1.0)
    ow.ops.mean(root * 2.0)
    block = programs[0].global_block()
    found = nn.find_nan(programs[0], {"x": np.array([[-1, 0, 1]], np.float32)})
    assert (found.op_type, found.variable, found.kind) == ("sqrt", root.name, "NaN")
    assert block.ops[found.place].type == "sqrt"
    assert (found.count, found.size) == (1, 3)
    low, high = found.ranges["subtract_0"]
    assert low == pytest.approx(np.expm1(-1), rel=1e-5)
    assert high == pytest.approx(np.expm1(1), rel=1e-5)
    assert str(found).startswith(
        f"operator {found.place}, sqrt: NaN in {root.name!r}, 1 of 3 elements; inputs: subtract_0"
    )


def test_an_infinity_from_finite_inputs_is_reported_before_the_nan_that_follows(programs):
    x = layers.data("x", [None, 2])
    log = ow.ops.log(x)
    ow.ops.subtract(log, log)
    found = nn.find_nan(ow.Network(programs[0].global_block()), {"x": np.zeros((1, 2), np.float32)})
    assert (found.op_type, found.kind, found.count) == ("log", "infinity", 2)


def test_an_infinity_in_a_mask_is_accepted_but_a_nan_caused_by_it_is_reported(programs):
    x = layers.data("x", [2, 3])
    mask = ow.ops.fill(shape=[2, 3], value=-np.inf)
    probabilities = ow.ops.softmax(ow.ops.maximum(x, mask))
    assert nn.find_nan(programs[0], {"x": np.ones((2, 3), np.float32)}) is None
    ow.ops.subtract(mask, mask)
    found = nn.find_nan(programs[0], {"x": np.ones((2, 3), np.float32)})
    assert (found.op_type, found.kind) == ("subtract", "NaN")
    assert probabilities.name not in found.variable


def test_a_nan_in_a_feed_is_not_attributed_to_an_operator():
    model = nn.Model()
    model.mean(model.fc_layer("x", size=2))
    found = nn.find_nan(model, {"x": np.array([[np.nan, 1]], np.float32)})
    assert (found.op_type, found.place, found.variable) == ("", -1, "x")
    assert str(found) == "given: NaN in 'x', 1 of 2 elements"


def test_searching_a_step_of_a_model_does_not_change_the_model(tiny):
    model, _ = tiny.make()
    tiny.fill(model)
    model.run()
    before = tiny.parameters(model)
    assert nn.find_nan(model) is None
    for name, array in tiny.parameters(model).items():
        np.testing.assert_array_equal(array, before[name])
    model.fill("fc_1_w_param", np.full((5, 3), 3e38, np.float32))
    before = tiny.parameters(model)
    found = nn.find_nan(model)
    assert found.op_type == "fc"
    assert found.variable.startswith("fc_1_out")
    for name, array in tiny.parameters(model).items():
        np.testing.assert_array_equal(array, before[name])


def test_the_search_draws_the_random_numbers_of_the_next_step():
    model = nn.Model()
    x = model.input("x", [None, 400])
    first = model.dropout(x, 0.5)
    second = model.dropout(x, 0.5)
    with model.guard():
        ow.ops.log(ow.ops.maximum(first, second))  # -inf if both draws drop the element
    model.fill("x", np.ones((1, 400), np.float32))
    found = nn.find_nan(model)
    model._startup.initialize()
    a, b = model.run(fetch=[first, second])
    assert found.count == np.sum((a == 0) & (b == 0)) > 0


def test_errors_for_wrong_arguments_suggest_a_fix(programs):
    main, _ = programs
    x = layers.data("x", [None, 3])
    layers.fc(x, size=2)
    feeds = {"x": np.ones((1, 3), np.float32)}
    with pytest.raises(AttributeTypeError, match="find_nan: model must be a Model, a Network"):
        nn.find_nan(3)
    with pytest.raises(FeedError, match="find_nan: feeds must be inputs.*got 'X'.*'x'"):
        nn.find_nan(main, {"X": feeds["x"]}, scope=ow.Scope())
    with pytest.raises(FeedError, match=r"find_nan: every input.*'x'; pass feeds=\{'x': array\}"):
        nn.find_nan(main, scope=ow.Scope())
    with pytest.raises(VariableNotFoundError, match="find_nan: the scope must hold 'fc_0_w_param'"):
        nn.find_nan(main, feeds, scope=ow.Scope())
    with pytest.raises(AttributeTypeError, match="find_nan: .*'feed'.*feeds"):
        nn.find_nan(main, feed=feeds)
