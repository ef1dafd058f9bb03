"""Recomputing the inputs of late readers saves memory and keeps results bitwise identical."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import opwright as ow
import opwright.lowering as lowering
import opwright_nn as nn
from opwright_nn import layers

OPTION = "cpu.recompute"
KEPT: dict[str, Any] = {OPTION: 0.0}
ALL: dict[str, Any] = {OPTION: 1.0}
WIDTH = 256


@pytest.fixture
def arenas(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The arena size of each plan in bytes, in lowering order."""
    found: list[int] = []
    plan_memory = lowering.plan_memory

    def noting(graph: Any, device: Any) -> Any:
        slots = plan_memory(graph, device)
        found.append(sum(slots.get(None, ())))
        return slots

    monkeypatch.setattr(lowering, "plan_memory", noting)
    return found


def _transformer(blocks: int = 3) -> tuple[Any, Any, Any, dict[str, np.ndarray]]:
    main, startup = ow.Program(seed=11), ow.Program(seed=11)
    with ow.program_guard(main, startup):
        h = layers.data("x", shape=[None, 32, WIDTH])
        for _ in range(blocks):
            h = layers.transformer_encoder_block(h, heads=4, causal=True)
        loss = layers.mean(ow.ops.square(h))
        nn.optimizer.Adam(0.01).minimize(loss)
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    feed = {"x": np.random.default_rng(4).normal(size=(8, 32, WIDTH)).astype("float32")}
    return main, scope, loss, feed


def _train(options: dict[str, Any], **more: Any) -> tuple[list[np.ndarray], Counter[str]]:
    """Return the losses and parameters of three steps, and operator type counts."""
    main, scope, loss, feed = _transformer()
    network = ow.Network(main.global_block())
    step = network.compile(feed=["x"], fetch=[loss], scope=scope, options=options, **more)
    losses = [step(**feed)[0] for _ in range(3)]
    values = [scope.var(p.name).numpy() for p in main.parameters()]
    return [*losses, *values], Counter(network.placement().types)


def test_training_needs_less_memory_and_is_bitwise_identical(arenas: list[int]) -> None:
    results, counts = [], []
    for options in (KEPT, {}, ALL):
        values, types = _train(options)
        results.append((values, arenas[-1]))
        counts.append(types)
    (kept, most), (usual, less), (again, least) = results
    assert least <= less < 0.9 * most
    for a, b, c in zip(kept, usual, again, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)
    assert counts[1]["layer_norm"] > counts[0]["layer_norm"]
    assert all(types["fc"] == counts[0]["fc"] for types in counts)  # no product is recomputed


def test_the_pass_can_be_omitted_by_its_name(arenas: list[int]) -> None:
    _train({}, passes=["-recompute"])
    without = arenas[-1]
    _train(KEPT)
    assert arenas[-1] == without


def test_a_larger_time_budget_recomputes_more_values() -> None:
    more = [_train({OPTION: share})[1].total() for share in (0.0, 0.01, 0.03, 1.0)]
    assert more[0] < more[1] <= more[2] <= more[3]
    assert more[1] < more[3]


def _block() -> Any:
    block = ow.Program().global_block()
    block.create_var("x", [256, 1024], "float32", is_data=True)
    return block


def _chain(block: Any, source: str, count: int) -> str:
    """Append operators that need memory before the first value is reread."""
    for i in range(count):
        block.append_op("softmax", {"x": source}, {"out": f"{source}_{i}"}, {"axis": 0})
        block.append_op("cumsum", {"x": f"{source}_{i}"}, {"out": f"{source}_{i}_sum"}, {"axis": 0})
        source = f"{source}_{i}_sum"
    return source


def _types(block: Any, feeds: list[str], fetch: list[str], **options: Any) -> Counter[str]:
    network = ow.Network(block)
    x = np.random.default_rng(0).normal(size=(256, 1024)).astype("float32")
    network.compile(feed=feeds, fetch=fetch, **options)(**dict.fromkeys(feeds, x))
    return Counter(network.placement().types)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Run plans in one thread; with more threads, the pass skips short plans."""
    ow.set_num_threads(1)


def _append_late_reader(block: Any, early: str, last: str) -> None:
    block.append_op("subtract", {"x": early, "y": last}, {"out": "out"})


def test_a_cheap_value_is_recomputed_for_a_late_reader() -> None:
    block = _block()
    block.append_op("transpose", {"x": "x"}, {"out": "early"}, {"axes": [1, 0]})
    block.append_op("flip", {"x": "early"}, {"out": "begin"}, {"axis": [0]})
    _append_late_reader(block, "early", _chain(block, "begin", 3))
    assert _types(block, ["x"], ["out"], options=ALL)["transpose"] == 2
    assert _types(block, ["x"], ["out"], options=KEPT)["transpose"] == 1


def test_a_fetched_value_is_computed_once() -> None:
    block = _block()
    block.append_op("transpose", {"x": "x"}, {"out": "early"}, {"axes": [1, 0]})
    block.append_op("flip", {"x": "early"}, {"out": "begin"}, {"axis": [0]})
    _append_late_reader(block, "early", _chain(block, "begin", 3))
    assert _types(block, ["x"], ["out", "early"], options=ALL)["transpose"] == 1


def test_a_value_is_not_recomputed_from_an_input_that_has_been_freed() -> None:
    block = _block()
    block.append_op("cumsum", {"x": "x"}, {"out": "before"}, {"axis": 0})
    block.append_op("transpose", {"x": "before"}, {"out": "early"}, {"axes": [1, 0]})
    block.append_op("flip", {"x": "early"}, {"out": "begin"}, {"axis": [0]})
    _append_late_reader(block, "early", _chain(block, "begin", 3))
    assert _types(block, ["x"], ["out"], options=ALL)["transpose"] == 1


def test_recomputing_does_not_read_overwritten_memory() -> None:
    x = np.random.default_rng(0).normal(size=(256, 1024)).astype("float32")
    block = _block()
    block.create_var("state", [256, 1024], "float32", persistable=True)
    block.append_op("transpose", {"x": "state"}, {"out": "early"}, {"axes": [1, 0]})
    block.append_op("flip", {"x": "early"}, {"out": "begin"}, {"axis": [0]})
    block.append_op("assign", {"x": "x"}, {"out": "state"})
    _append_late_reader(block, "early", _chain(block, "begin", 3))
    results = []
    for options in (ALL, KEPT):
        scope = ow.Scope()
        scope.var("state").set(2 * x)
        network = ow.Network(block)
        call = network.compile(feed=["x"], fetch=["out"], scope=scope, options=options)
        results.append(call(x=x)[0])
        assert network.placement().types["transpose"] == 1
    np.testing.assert_array_equal(*results)


def test_recomputed_dropout_uses_the_same_random_numbers(arenas: list[int]) -> None:
    def train(options: dict[str, Any]) -> list[np.ndarray]:
        main, startup = ow.Program(seed=2), ow.Program(seed=2)
        with ow.program_guard(main, startup):
            h = layers.data("x", shape=[512, WIDTH])
            for _ in range(4):
                h = layers.gelu(layers.fc(layers.dropout(h, 0.3), WIDTH))
            loss = layers.mean(ow.ops.square(h))
            nn.optimizer.SGD(0.1).minimize(loss)
        scope = ow.Scope()
        ow.Network(startup.global_block()).run(scope)
        network = ow.Network(main.global_block())
        step = network.compile(feed=["x"], fetch=[loss], scope=scope, options=options)
        x = np.random.default_rng(3).normal(size=(512, WIDTH)).astype("float32")
        return [step(x=x)[0] for _ in range(3)]

    np.testing.assert_array_equal(train(ALL), train(KEPT))
    assert arenas[-2] != arenas[-1]
