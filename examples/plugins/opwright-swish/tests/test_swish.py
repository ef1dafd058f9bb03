"""Compares both kernels with the formula in float64, and runs opwright's conformance checks."""

import numpy as np

import opwright as ow
from opwright_kit.testing import check_package

X = np.linspace(-6, 6, 25)
BETA = 2.0


def formula(x):
    return x / (1 + np.exp(-BETA * x))


def test_swish_is_x_times_sigmoid():
    np.testing.assert_allclose(ow.ops.acme.swish(X, beta=BETA), formula(X), rtol=1e-12)


def test_the_gradient_is_the_central_difference():
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        x = main.global_block().create_var("x", shape=[25], dtype="float64")
        out = ow.ops.acme.swish(x, beta=BETA)
        [(_, x_grad)] = ow.append_backward(ow.ops.sum(out), parameters=[x])
    run = ow.Network(main.global_block()).compile(feed=["x"], fetch=[x_grad])
    [got] = run(x=X)
    step = 1e-6
    expected = (formula(X + step) - formula(X - step)) / (2 * step)
    np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-9)


def test_the_package_conforms():
    card = check_package("opwright-swish")
    assert card.ok, card.format_findings(card.findings)
