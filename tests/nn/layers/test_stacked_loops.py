"""A `while_loop` can stack the results of its iterations, whatever their number."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
from opwright import ops
from opwright.errors import AttributeTypeError, GradientError, KernelError
from opwright_nn import layers

X = np.array([1.0, -2.0, 3.0], np.float32)
TURNS = [0, 1, 2, 16, 17, 40, 7, 0]


def squares_of_doubles(max_steps=None):
    """Return the carry after `n` iterations, and the stacked squares and iteration numbers."""
    x = layers.data("x", shape=[3])
    n = layers.data("n", shape=[], dtype="int64")
    first = ops.fill(shape=[], dtype="int64")
    return layers.while_loop(
        lambda i, h: ops.less(i, n),
        lambda i, h: ([i + 1, ops.scale(h, scale=1.5)], [ops.square(h), i]),
        [first, x],
        max_steps=max_steps,
        stack=True,
    )


def expected(n):
    return np.array([(X * 1.5**i) ** 2 for i in range(n)], np.float32).reshape(n, 3)


@pytest.mark.parametrize("max_steps", [None, 40])
def test_outputs_have_as_many_elements_as_iterations_ran(programs, max_steps):
    (_, last), (squares, counts) = squares_of_doubles(max_steps)
    assert (squares.shape, counts.shape) == ((-1, 3), (-1,))
    behind = ops.add(squares, 1.0)
    f = ow.Network(last.block).compile(feed=["x", "n"], fetch=[last, squares, counts, behind])
    for n in TURNS:
        carried, stacked, numbers, plus = f(x=X, n=np.int64(n))
        np.testing.assert_allclose(carried, X * 1.5**n, rtol=1e-5)
        np.testing.assert_allclose(stacked, expected(n), rtol=1e-5)
        np.testing.assert_array_equal(numbers, np.arange(n))
        np.testing.assert_allclose(plus, expected(n) + 1, rtol=1e-5)


def test_a_result_stays_unchanged_when_the_next_run_has_more_iterations(programs):
    _, (squares, _) = squares_of_doubles()
    f = ow.Network(squares.block).compile(feed=["x", "n"], fetch=[squares])
    before = f(x=X, n=np.int64(20))[0]
    f(x=2 * X, n=np.int64(30))
    np.testing.assert_allclose(before, expected(20), rtol=1e-5)


def test_a_run_of_a_network_keeps_its_stacked_results(programs):
    _, (squares, counts) = squares_of_doubles()
    scope = ow.Scope()
    scope.set_all({"x": X, "n": np.int64(5)})
    ow.Network(squares.block).run(scope)
    np.testing.assert_allclose(scope.var(squares.name).numpy(), expected(5), rtol=1e-5)
    np.testing.assert_array_equal(scope.var(counts.name).numpy(), np.arange(5))


def test_gradients_flow_back_from_every_iteration(programs):
    _, (squares, _) = squares_of_doubles(max_steps=6)
    rows = ops.cast(ops.arange(stop=ops.shape(squares)[0]), dtype="float32")
    loss = ops.sum(squares * ops.reshape(rows, shape=[-1, 1]))
    grad = ow.append_backward(loss, ["x"])[0][1]
    f = ow.Network(loss.block).compile(feed=["x", "n"], fetch=[grad])
    for n in (0, 1, 4, 6):
        expected = sum((i * 2 * X * 1.5 ** (2 * i) for i in range(n)), np.zeros(3))
        np.testing.assert_allclose(f(x=X, n=np.int64(n))[0], expected, rtol=1e-5)


def test_a_gradient_requires_a_bound_on_the_iterations(programs):
    _, (squares, _) = squares_of_doubles()
    with pytest.raises(GradientError, match="give max_steps"):
        ow.append_backward(ops.sum(squares), ["x"])


def test_exceeding_the_bound_raises(programs):
    _, (squares, _) = squares_of_doubles(max_steps=3)
    f = ow.Network(squares.block).compile(feed=["x", "n"], fetch=[squares])
    with pytest.raises(KernelError, match="the loop must end within 3 iterations"):
        f(x=X, n=np.int64(4))


def test_a_body_with_stack_must_return_a_carry_and_an_output(programs):
    x = layers.data("x", shape=[3])
    holds = layers.data("holds", shape=[], dtype="bool")
    with pytest.raises(AttributeTypeError, match=r"must return \(carry, out\) with stack=True"):
        layers.while_loop(lambda h: holds, lambda h: h, x, stack=True)


def test_loops_with_stacks_of_unknown_length_are_refused_within_loops(programs):
    x = layers.data("x", shape=[3])
    n = layers.data("n", shape=[], dtype="int64")

    def turn(h, _):
        first = ops.fill(shape=[], dtype="int64")
        (_, last), _ = layers.while_loop(
            lambda i, c: ops.less(i, n), lambda i, c: ([i + 1, c], c), [first, h], stack=True
        )
        return last, None

    last, _ = layers.scan(turn, x, length=2)
    f = ow.Network(x.block).compile(feed=["x", "n"], fetch=[last])
    with pytest.raises(ow.errors.ProgramError, match="while_loop: its output shape depends on val"):
        f(x=X, n=np.int64(2))
