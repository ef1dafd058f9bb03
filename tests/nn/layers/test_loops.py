"""Laws of scan and while_loop: the form of the carry, training, refusals that leave nothing."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import AttributeTypeError, AttributeValueError, ShapeError
from opwright_nn import layers


def cell(h, x):
    h = layers.tanh(layers.fc(layers.concat([x, h], axis=1), 4, name="cell"))
    return h, h


def test_scan_returns_the_carry_and_what_the_turns_gave(programs):
    main, _ = programs
    x = layers.data("x", shape=[5, 2, 3])
    h = layers.data("h", shape=[2, 4])
    last, states = layers.scan(cell, h, x)
    assert (last.name, last.shape) == ("scan_0_final", (2, 4))
    assert (states.name, states.shape) == ("scan_0_out", (5, 2, 4))
    assert main.current_block() is main.global_block()
    assert [parameter.name for parameter in main.parameters()] == ["cell_w_param", "cell_b_param"]


def test_scan_keeps_the_form_of_several_variables(programs):
    x = layers.data("x", shape=[5, 2])
    (a, b), outs = layers.scan(lambda c, t: ([c[1], c[0]], [t, c[0]]), [x, x], (x,)[0])
    assert (a.shape, b.shape) == ((5, 2), (5, 2))
    assert [out.shape for out in outs] == [(5, 2), (5, 5, 2)]
    carry, nothing = layers.scan(lambda c, t: (c, None), (x,), length=3)
    assert isinstance(carry, tuple)
    assert nothing is None


def test_while_loop_returns_the_carry(programs):
    x = layers.data("x", shape=[1])
    limit = layers.data("limit", shape=[1])
    block = x.block

    def condition(v):
        current = ow.default_main_program().current_block()
        return current.var(current.append_op("less", {"x": v, "y": limit}).output("out")[0])

    out = layers.while_loop(condition, layers.relu, x, max_steps=4)
    assert (out.name, out.shape) == ("while_loop_0_out", (1,))
    assert block.ops[-1].attrs["max_steps"] == 4


@pytest.mark.parametrize(
    ("build", "error", "rule"),
    [
        (lambda x: layers.scan(3, x, x), AttributeTypeError, "scan: body must be a function"),
        (lambda x: layers.scan(lambda h, t: h, x, x), AttributeTypeError, r"\(carry, out\), got"),
        (lambda x: layers.scan(lambda h, t: (h, 3), x, x), AttributeTypeError, "the out of body"),
        (
            lambda x: layers.scan(lambda h, t: ([h], None), x, x),
            AttributeValueError,
            "a carry in the form of init, one variable, got",
        ),
        (lambda x: layers.scan(lambda h, t: (t, None), x, x), ShapeError, "must hand on what it"),
        (
            lambda x: layers.scan(lambda h, t: (h, None), 3, x),
            AttributeTypeError,
            "scan: init must",
        ),
        (lambda x: layers.scan(lambda h, t: (h, 1 / 0), x, x), ZeroDivisionError, "division"),
        (lambda x: layers.scan(lambda h, t: (h, None), x), ShapeError, "xs or length must give"),
        (
            lambda x: layers.while_loop(lambda v: True, lambda v: v, x),
            AttributeTypeError,
            "condition must return a variable, got True",
        ),
        (
            lambda x: layers.while_loop(lambda v: v, lambda v: v, x, max_steps=-1),
            AttributeValueError,
            "max_steps must be",
        ),
    ],
)
def test_bad_loop_is_refused_and_leaves_no_block(programs, snapshot, build, error, rule):
    x = layers.data("x", shape=[2, 8])
    before = snapshot()
    with pytest.raises(error, match=rule):
        build(x)
    assert snapshot() == before
    assert programs[0].current_block().idx == 0


def test_a_recurrent_network_learns_to_add_up_its_inputs(programs):
    main, startup = programs
    x = layers.data("x", shape=[6, 8, 1])
    h = layers.data("h", shape=[8, 4])
    wanted = layers.data("wanted", shape=[8, 1])
    last, _ = layers.scan(cell, h, x)
    out = layers.fc(last, 1)
    block = main.global_block()
    error = block.var(block.append_op("subtract", {"x": out, "y": wanted}).output("out")[0])
    squares = block.var(block.append_op("square", {"x": error}).output("out")[0])
    loss = layers.mean(squares)
    nn.optimizer.Adam(0.02).minimize(loss)
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    step = ow.Network(block).compile(["x", "h", "wanted"], [loss], scope=scope)
    rng = np.random.default_rng(0)
    losses = []
    for _ in range(300):
        data = rng.uniform(-0.3, 0.3, size=(6, 8, 1)).astype(np.float32)
        target = data.sum(axis=0)
        losses.append(float(step(x=data, h=np.zeros((8, 4), np.float32), wanted=target)[0]))
    assert np.mean(losses[-20:]) < np.mean(losses[:20]) / 10
