"""Batch normalization is folded into weights, and refolded if a parameter changes."""

from __future__ import annotations

import numpy as np
import pytest
from image_nets import Net, conv, norm, parameter

import opwright as ow
from opwright_nn import layers

FOLDED = ("bn_w_param", "bn_b_param", "bn_mean", "bn_variance", "c_w_param", "c_b_param")


@pytest.mark.parametrize("changed", FOLDED)
@pytest.mark.parametrize("groups", [1, 3])
def test_a_changed_parameter_is_refolded_in_the_next_run(changed, groups):
    net = Net(lambda x: norm(conv(x, 6, groups=groups, name="c"), name="bn"))
    network = ow.Network(net.main.global_block())
    calls = [
        network.compile(feed=["x"], fetch=net.out, scope=net.scope, passes=passes)
        for passes in (None, [])
    ]
    before = calls[0](x=net.x)[0]
    values = net.scope.find_var(changed).numpy()
    net.scope.var(changed).set(2 * values + 1)
    after, plain = (call(x=net.x)[0] for call in calls)
    np.testing.assert_allclose(after, plain, rtol=2e-5, atol=1e-4)
    assert not np.allclose(before, after)


@pytest.mark.parametrize("bias", [False, True])
def test_a_normalization_is_folded_into_weight_and_bias(bias):
    net = Net(lambda x: layers.relu(norm(conv(x, bias=bias))))
    types = net.check()
    assert types["multiply"] == 1
    assert types["std.elementwise_chain"] == bias  # a product and a sum
    assert types["cpu.conv2d_fused"] == 1


def test_batch_norm_is_not_folded_if_the_plan_updates_its_statistics():
    def write(x):
        h = norm(conv(x, bias=False), name="bn")
        parameter("step", (4,))
        block = ow.default_main_program().global_block()
        block.append_op("add", {"x": "bn_mean", "y": "step"}, {"out": "bn_mean"})
        return h

    net = Net(write)
    network = ow.Network(net.main.global_block())
    call = network.compile(feed=["x"], fetch=net.out, scope=net.scope)
    first, second = (call(x=net.x)[0] for _ in range(2))
    assert network.placement().types["multiply"] == 0
    assert not np.allclose(first, second)


@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["bn_w_param", "bn_b_param", "bn_mean", "c_w_param"])
def test_folding_keeps_the_positions_of_infinities_and_nan(name, number):
    net = Net(lambda x: norm(conv(x, bias=False, name="c"), name="bn"))
    value = net.scope.find_var(name).numpy()
    value.flat[0] = number
    net.scope.var(name).set(value)
    (plain,), _ = net.run([])
    (fused,), _ = net.run(None)
    np.testing.assert_array_equal(np.isfinite(fused), np.isfinite(plain))
