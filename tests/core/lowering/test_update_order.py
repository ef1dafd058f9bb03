"""Updates run as soon as their gradient is computed, but after readers of the old value."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright import _runtime, current_context
from opwright.lowering import Fetches, Given, LowerRequest, Persistables, Target, lower
from opwright.lowering.building.build_graph import GraphBuilder
from opwright.lowering.kernels.select import select_kernels
from opwright.lowering.layout.memory import plan_memory
from opwright.lowering.layout.order import LEAST_FREED_BYTES, advance_updates
from opwright.op import Meta
from opwright_nn import layers

N = LEAST_FREED_BYTES // 4
RATE = "rate"


def _gradient(i, source="x"):
    return ow.Operator("exp", x=source, out=f"g{i}")


def _update(i, gradient=None):
    slots = {"param": f"p{i}", "grad": gradient or f"g{i}", "learning_rate": RATE}
    return ow.Operator("sgd", **slots, param_out=f"p{i}")


def _graph(ops, fetches=(), n=N, **options):
    metas = {name: Meta((n,), "float32") for name in ("p0", "p1", "p2")} | {
        RATE: Meta((1,), "float32")
    }
    persistables = Persistables(metas, lasting=frozenset(metas), **options)
    given = Given({"x": Meta((n,), "float32")})
    target = Target(current_context())
    request = LowerRequest(ops, target, given, persistables, Fetches(fetches))
    graph = GraphBuilder(request, lower).build()
    select_kernels(graph)
    return graph


def _order(graph):
    """Apply `advance_updates`; return the first output of each operator, in execution order."""
    advance_updates(graph)
    return [op.outputs[0][0].name if any(op.outputs) else op.type for op in graph.ops]


def test_updates_run_right_after_their_gradients():
    ops = [_gradient(0), _gradient(1), _gradient(2), _update(0), _update(1), _update(2)]
    assert _order(_graph(ops)) == ["g0", "p0", "g1", "p1", "g2", "p2"]


def test_the_gradients_of_early_updates_share_memory():
    ops = [*map(_gradient, range(3)), *map(_update, range(3))]
    graph = _graph(ops)
    advance_updates(graph)
    total = sum(plan_memory(graph, _runtime.host_device())[None])
    assert LEAST_FREED_BYTES <= total < 1.1 * LEAST_FREED_BYTES


def test_small_gradients_do_not_change_the_program_order():
    ops = [_gradient(0), _gradient(1), _update(0), _update(1)]
    assert _order(_graph(ops, n=N - 1)) == ["g0", "g1", "p0", "p1"]


def test_an_update_stays_after_earlier_readers_of_its_parameter():
    ops = [_gradient(0), _gradient(1), ow.Operator("exp", x="p0", out="old"), _gradient(2)]
    ops += [_update(0), _update(1)]
    order = _order(_graph(ops, fetches=["old", "g2"]))
    assert order == ["g0", "g1", "p1", "old", "p0", "g2"]


def test_an_update_stays_after_the_previous_update_of_its_parameter():
    ops = [_gradient(0), _gradient(1), _gradient(2), _update(0), _update(0, "g1")]
    ops += [ow.Operator("exp", x="g2", out="out")]
    order = _order(_graph(ops, fetches=["out"]))
    assert order.index("g1") < order.index("p0", order.index("p0") + 1)
    assert order == ["g0", "p0", "g1", "g2", "p0", "out"]


def test_the_update_of_a_gradient_that_is_read_later_or_fetched_does_not_move():
    ops = [_gradient(0), _gradient(1), _update(0), ow.Operator("exp", x="g0", out="late")]
    assert _order(_graph(ops, fetches=["late", "g1"])) == ["g0", "g1", "p0", "late"]
    ops = [_gradient(0), _gradient(1), _update(0)]
    assert _order(_graph(ops, fetches=["g0", "g1"])) == ["g0", "g1", "p0"]


def test_an_update_does_not_move_before_an_operator_with_an_effect():
    check = ow.Operator("assert_true", condition="ok", message="x must be positive")
    ops = [_gradient(0), ow.Operator("isfinite", x="x", out="each"), _gradient(1)]
    ops += [ow.Operator("all", x="each", out="ok"), check, _gradient(2), _update(0)]
    order = _order(_graph(ops, fetches=["g1", "g2"]))
    assert order.index("p0") == order.index("assert_true") + 1


def test_a_run_that_keeps_every_value_keeps_the_program_order():
    ops = [_gradient(0), _gradient(1), _update(0), _update(1)]
    assert _order(_graph(ops, keep_all=True)) == ["g0", "g1", "p0", "p1"]


def _train(width, depth):
    """Return a training program of `depth` layers that uses Adam, and its scope."""
    main, startup = ow.Program(seed=3), ow.Program(seed=3)
    with ow.program_guard(main, startup):
        h = layers.data("x", shape=[4, width])
        for _ in range(depth):
            h = layers.fc(h, width, activation="tanh")
        loss = layers.mean(h)
        nn.optimizer.Adam(0.1).minimize(loss)
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    return main, scope, loss


@pytest.mark.parametrize("width", [16, 600])
def test_training_with_early_updates_is_bitwise_identical_to_program_order(monkeypatch, width):
    x = np.random.default_rng(1).normal(size=(4, width)).astype("float32")
    results = []
    for is_early in (True, False):
        if not is_early:
            monkeypatch.setattr("opwright.lowering.advance_updates", lambda graph: None)
        main, scope, loss = _train(width, 4)
        step = ow.Network(main.global_block()).compile(feed=["x"], fetch=[loss], scope=scope)
        losses = [step(x=x)[0] for _ in range(3)]
        results.append([*losses, *(scope.var(p.name).numpy() for p in main.parameters())])
    for early, late in zip(*results, strict=True):
        np.testing.assert_array_equal(early, late)
