"""The conditional layer: blocks for both branches, and their results and gradients."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import AttributeTypeError, AttributeValueError
from opwright_nn import layers


def test_cond_appends_a_block_for_each_branch(programs):
    main, _ = programs
    x = layers.data("x", shape=[2, 8])
    flag = layers.data("flag", shape=[1], dtype="bool")
    out = layers.cond(flag, lambda: layers.relu(x), lambda: x)
    assert (out.name, out.shape, len(main.blocks)) == ("cond_0_out", (2, 8), 3)
    first, second = layers.cond(flag, lambda: [x, layers.tanh(x)], lambda: (layers.tanh(x), x))
    assert (first.name, second.name) == ("cond_1_out_0", "cond_1_out_1")
    assert main.current_block() is main.global_block()


@pytest.mark.parametrize(
    ("branches", "error", "rule"),
    [
        (lambda x: (3, lambda: x), AttributeTypeError, "true_fn must be a function"),
        (lambda x: (lambda: x, lambda: None), AttributeTypeError, "false_fn must return a var"),
        (lambda x: (list, list), AttributeTypeError, "true_fn must return a var"),
        (
            lambda x: (lambda: x, lambda: [x, x]),
            AttributeValueError,
            "the same number of variables, got 1",
        ),
        (lambda x: (lambda: x, lambda: [x]), AttributeValueError, "the same number of variables"),
        (lambda x: (lambda: x, lambda: 1 / 0), ZeroDivisionError, "division"),
    ],
)
def test_an_invalid_branch_is_refused_and_leaves_no_block(
    programs, snapshot, branches, error, rule
):
    x = layers.data("x", shape=[2, 8])
    flag = layers.data("flag", shape=[1], dtype="bool")
    before = snapshot()
    with pytest.raises(error, match=rule):
        layers.cond(flag, *branches(x))
    assert snapshot() == before
    assert programs[0].current_block().idx == 0


def test_cond_computes_and_trains_the_selected_branch(programs):
    main, startup = programs
    x = layers.data("x", shape=[2, 3])
    flag = layers.data("flag", shape=[1], dtype="bool")
    chosen = layers.cond(
        flag,
        lambda: layers.fc(x, 4, name="a", bias=False),
        lambda: layers.fc(x, 4, name="b", bias=False),
    )
    loss = layers.mean(chosen)
    nn.optimizer.SGD(1.0).minimize(loss)
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    step = ow.Network(main.global_block()).compile(["x", "flag"], [chosen], scope=scope)
    data = np.ones((2, 3), np.float32)
    for flagged, name, other in [(True, "a", "b"), (False, "b", "a")]:
        before = {n: scope.var(f"{n}_w_param").numpy() for n in "ab"}
        (output,) = step(x=data, flag=np.array([flagged]))
        np.testing.assert_allclose(output, data @ before[name], rtol=1e-6)
        moved = before[name] - scope.var(f"{name}_w_param").numpy()
        np.testing.assert_allclose(moved, 0.25, rtol=1e-5)
        np.testing.assert_array_equal(scope.var(f"{other}_w_param").numpy(), before[other])
