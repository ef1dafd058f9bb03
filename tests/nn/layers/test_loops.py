"""scan and while_loop: structure of the carry, training, and errors that change nothing."""

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


def test_scan_returns_the_carry_and_the_results_of_the_iterations(programs):
    main, _ = programs
    x = layers.data("x", shape=[5, 2, 3])
    h = layers.data("h", shape=[2, 4])
    last, states = layers.scan(cell, h, x)
    assert (last.name, last.shape) == ("scan_0_final", (2, 4))
    assert (states.name, states.shape) == ("scan_0_out", (5, 2, 4))
    assert main.current_block() is main.global_block()
    assert [parameter.name for parameter in main.parameters()] == ["cell_w_param", "cell_b_param"]


def test_scan_preserves_lists_and_tuples_of_variables(programs):
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


def run_scan(x, axis, reverse):
    """Return the outputs of a scan that accumulates x, and the x gradient of their weighted sum."""
    weights = np.arange(x.size, dtype="float64").reshape(x.shape)
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        given = layers.data("x", [None] * x.ndim, "float64")
        like = layers.data("h", [None] * (x.ndim - 1), "float64")
        last, sums = layers.scan(
            lambda h, t: (h * t + t, h + t), like, given, axis=axis, reverse=reverse
        )
        loss = ow.ops.sum(sums * weights)
        ((_, gradient),) = ow.append_backward(loss, [given])
    call = ow.Network(main.global_block()).compile(["x", "h"], [last, sums, gradient])
    return call(x=x, h=np.ones_like(x.take(0, axis)))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [1, 2, -1, -3])
def test_a_scan_along_an_axis_equals_a_scan_along_axis_0_after_moveaxis(axis, reverse):
    x = np.random.default_rng(0).normal(size=(2, 3, 4))
    last, sums, _ = run_scan(x, axis, reverse)
    wanted_last, wanted_sums, _ = run_scan(np.moveaxis(x, axis, 0).copy(), 0, reverse)
    np.testing.assert_array_equal(last, wanted_last)
    np.testing.assert_array_equal(sums, np.moveaxis(wanted_sums, 0, axis))


def test_the_gradient_of_a_scan_along_an_axis_agrees_with_finite_differences():
    x = np.random.default_rng(0).normal(size=(2, 3, 4))
    weights = np.arange(x.size, dtype="float64").reshape(x.shape)
    gradient = run_scan(x, 1, False)[2]
    step = np.zeros_like(x)
    step[1, 1, 2] = 1e-6
    ends = [np.sum(run_scan(x + sign * step, 1, False)[1] * weights) for sign in (1, -1)]
    np.testing.assert_allclose(gradient[1, 1, 2], (ends[0] - ends[1]) / 2e-6, rtol=1e-6)


def test_several_outputs_of_a_scan_are_stacked_along_the_given_axis(programs):
    x = layers.data("x", shape=[None, 64, 32])
    h = layers.data("h", shape=[None, 32])
    (_, c), (wide, narrow) = layers.scan(
        lambda carry, step: ((carry[1], carry[0] + step), (step, ow.ops.sum(step, axis=1))),
        init=(h, h),
        xs=x,
        axis=1,
    )
    assert (c.shape, wide.shape, narrow.shape) == ((-1, 32), (-1, 64, 32), (-1, 64))
    assert (wide.name, narrow.name) == ("scan_0_out_0", "scan_0_out_1")


def test_a_scan_along_an_axis_can_be_nested_in_a_scan(programs):
    main, _ = programs
    x = layers.data("x", shape=[5, 3, 2])
    h = layers.data("h", shape=[3])

    def outer(carry, t):
        last, _ = layers.scan(lambda h, u: (h + u, None), carry, t, axis=1)
        return last, None

    last, _ = layers.scan(outer, h, x)
    call = ow.Network(main.global_block()).compile(["x", "h"], [last])
    value = np.random.default_rng(0).normal(size=(5, 3, 2)).astype("float32")
    (got,) = call(x=value, h=np.zeros(3, "float32"))
    np.testing.assert_allclose(got, value.sum(axis=(0, 2)), rtol=1e-5)


@pytest.mark.parametrize(
    ("condition", "body"),
    [
        (lambda i, a: i < 10, lambda i, a: (i + 1, a * 0.5)),
        (lambda carry: carry[0] < 10, lambda carry: (carry[0] + 1, carry[1] * 0.5)),
        (lambda *carry: carry[0][0] < 10, lambda i, a: [i + 1, a * 0.5]),
    ],
)
def test_the_functions_of_a_while_loop_receive_the_carry_as_one_or_several_arguments(
    condition, body
):
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        i = layers.data("i", shape=[1], dtype="int64")
        a = layers.data("a", shape=[2])
        out = layers.while_loop(condition, body, (i, a))
    call = ow.Network(main.global_block()).compile(["i", "a"], list(out))
    count, halved = call(i=np.array([7]), a=np.array([8, 16], "float32"))
    assert count == 10
    np.testing.assert_array_equal(halved, [1, 2])


@pytest.mark.parametrize(
    ("build", "error", "rule"),
    [
        (
            lambda x: layers.scan(lambda h, t: (h, None), x, x, axis=2),
            AttributeValueError,
            r"scan: axis must be one of the known axes of .*, got 2; 0 is the first",
        ),
        (lambda x: layers.scan(3, x, x), AttributeTypeError, "scan: body must be a function"),
        (lambda x: layers.scan(lambda h, t: h, x, x), AttributeTypeError, r"\(carry, out\), got"),
        (lambda x: layers.scan(lambda h, t: (h, 3), x, x), AttributeTypeError, "the out of body"),
        (
            lambda x: layers.scan(lambda h, t: ([h], None), x, x),
            AttributeValueError,
            "a carry in the form of init, one variable, got",
        ),
        (
            lambda x: layers.scan(lambda h, t: (t, None), x, x),
            ShapeError,
            "must return its carried values",
        ),
        (
            lambda x: layers.scan(lambda h, t: (h, None), 3, x),
            AttributeTypeError,
            "scan: init must",
        ),
        (lambda x: layers.scan(lambda h, t: (h, 1 / 0), x, x), ZeroDivisionError, "division"),
        (
            lambda x: layers.scan(lambda h, t: (h, None), x),
            ShapeError,
            "xs or length must determine",
        ),
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
def test_an_invalid_loop_is_refused_and_leaves_no_block(programs, snapshot, build, error, rule):
    x = layers.data("x", shape=[2, 8])
    before = snapshot()
    with pytest.raises(error, match=rule):
        build(x)
    assert snapshot() == before
    assert programs[0].current_block().idx == 0


def test_a_recurrent_network_learns_to_sum_its_inputs(programs):
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
