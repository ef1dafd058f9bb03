"""Merging all updates into one step gives bitwise identical results."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright_nn import layers

OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda: nn.optimizer.SGD(0.1),
    "momentum": lambda: nn.optimizer.Momentum(0.1, 0.9, nesterov=True),
    "adam": lambda: nn.optimizer.Adam(0.01),
    "adamw": lambda: nn.optimizer.AdamW(0.01, weight_decay=0.1),
    "lion": lambda: nn.optimizer.Lion(0.01),
    "adamax": lambda: nn.optimizer.Adamax(0.01),
    "nadam": lambda: nn.optimizer.NAdam(0.01),
    "radam": lambda: nn.optimizer.RAdam(0.01),
    "adagrad": lambda: nn.optimizer.Adagrad(0.1),
    "adadelta": lambda: nn.optimizer.Adadelta(1.0),
    "rmsprop": lambda: nn.optimizer.RMSprop(0.01, momentum=0.5),
    "proximal_gd": lambda: nn.optimizer.ProximalGD(0.1, l1=0.01),
    "proximal_adagrad": lambda: nn.optimizer.ProximalAdagrad(0.1, l1=0.01),
    "ftrl": lambda: nn.optimizer.Ftrl(0.1, l1=0.01),
}
PASS = ["fuse_optimizers"]


def train(make: Any, passes: list[str]) -> tuple[list[np.ndarray], Counter[str]]:
    """Return all persistables after three steps of a small network, and operator type counts."""
    main, startup = ow.Program(seed=5), ow.Program(seed=5)
    with ow.program_guard(main, startup):
        x = layers.data("x", shape=[None, 30])
        label = layers.data("label", shape=[None, 1], dtype="int64")
        h = layers.fc(x, 700, activation="tanh")
        h = layers.fc(h, 40, activation="sigmoid")
        loss = layers.mean(layers.softmax_with_cross_entropy(layers.fc(h, 5), label))
        make().minimize(loss)
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    network = ow.Network(main.global_block())
    step = network.compile(feed=["x", "label"], fetch=[loss], scope=scope, passes=passes)
    rng = np.random.default_rng(0)
    for _ in range(3):
        step(x=rng.standard_normal((8, 30)).astype("f"), label=rng.integers(0, 5, (8, 1)))
    kept = [v.name for v in main.global_block().vars.values() if v.persistable]
    return [scope.var(name).numpy() for name in kept], Counter(network.placement().types)


@pytest.fixture
def one_thread() -> None:
    """Run both plans in one thread; otherwise their thread counts and summation orders differ."""
    ow.set_num_threads(1)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_merged_updates_are_bitwise_identical_to_separate_updates(kind: str) -> None:
    apart, one_by_one = train(OPTIMIZERS[kind], [])
    together, merged = train(OPTIMIZERS[kind], PASS)
    assert one_by_one[kind] == 6
    assert merged[kind] == 0
    assert merged[f"std.multi_{kind}"] == 1
    for a, b in zip(apart, together, strict=True):
        np.testing.assert_array_equal(a, b)


class Updates:
    """A program to which tests append sgd updates."""

    def __init__(self) -> None:
        self.block = ow.Program().global_block()
        self.scope = ow.Scope()
        self.values: dict[str, np.ndarray] = {}

    def parameter(self, name: str, *numbers: float, dtype: str = "float32") -> str:
        self.block.create_var(name, [len(numbers)], dtype, persistable=True)
        self.values[name] = np.array(numbers, dtype)
        return name

    def sgd(self, param: str, grad: str, rate: str, **attrs: Any) -> None:
        inputs = {"param": param, "grad": grad, "learning_rate": rate}
        self.block.append_op("sgd", inputs, {"param_out": param}, attrs)

    def run(self, passes: list[str], fetch: list[str] | None = None) -> tuple[Any, Counter[str]]:
        for name, value in self.values.items():
            self.scope.var(name).set(value)
        network = ow.Network(self.block)
        step = network.compile(feed=[], fetch=fetch or [], scope=self.scope, passes=passes)
        fetched = step()
        found = {name: self.scope.var(name).numpy().tolist() for name in self.values}
        return (found, [a.tolist() for a in fetched or []]), Counter(network.placement().types)


def check(updates: Updates, merged: dict[str, int], fetch: list[str] | None = None) -> None:
    plain, _ = updates.run([], fetch)
    fused, types = updates.run(PASS, fetch)
    assert fused == plain
    assert {kind: types[kind] for kind in merged} == merged


def two() -> Updates:
    updates = Updates()
    updates.parameter("rate", 0.5)
    for name in ("a", "b", "c"):
        updates.parameter(name, 1.0, 2.0)
        updates.parameter(f"{name}_grad", 0.25, -1.0)
    return updates


def test_two_updates_are_merged() -> None:
    updates = two()
    updates.sgd("a", "a_grad", "rate")
    updates.sgd("b", "b_grad", "rate")
    check(updates, {"std.multi_sgd": 1, "sgd": 0})


def test_a_single_update_is_kept() -> None:
    updates = two()
    updates.sgd("a", "a_grad", "rate")
    check(updates, {"std.multi_sgd": 0, "sgd": 1})


def test_updates_with_different_attributes_or_rates_are_not_merged() -> None:
    updates = two()
    updates.parameter("other_rate", 0.25)
    updates.sgd("a", "a_grad", "rate")
    updates.sgd("b", "b_grad", "rate", weight_decay=0.5)
    updates.sgd("c", "c_grad", "other_rate")
    check(updates, {"std.multi_sgd": 0, "sgd": 3})


def test_updates_of_different_dtypes_are_not_merged() -> None:
    updates = two()
    updates.parameter("d", 1.0, dtype="float64")
    updates.parameter("d_grad", 3.0, dtype="float64")
    updates.sgd("a", "a_grad", "rate")
    updates.sgd("d", "d_grad", "rate")
    updates.sgd("b", "b_grad", "rate")
    check(updates, {"std.multi_sgd": 1, "sgd": 1})


def test_updates_before_and_after_a_change_of_the_rate_are_not_merged() -> None:
    updates = two()
    updates.sgd("a", "a_grad", "rate")
    updates.block.append_op("scale", {"x": "rate"}, {"out": "rate"}, {"scale": 0.5})
    updates.sgd("b", "b_grad", "rate")
    check(updates, {"std.multi_sgd": 0, "sgd": 2})


def test_two_updates_of_one_parameter_are_not_merged() -> None:
    updates = two()
    updates.sgd("a", "a_grad", "rate")
    updates.sgd("a", "b_grad", "rate")
    updates.sgd("b", "b_grad", "rate")
    check(updates, {"std.multi_sgd": 1, "sgd": 1})


def test_an_update_whose_parameter_is_read_later_is_not_moved() -> None:
    updates = two()
    updates.sgd("a", "a_grad", "rate")
    updates.block.create_var("seen")
    updates.block.append_op("scale", {"x": "a"}, {"out": "seen"}, {"scale": 2.0})
    updates.sgd("b", "b_grad", "rate")
    updates.sgd("c", "c_grad", "rate")
    check(updates, {"std.multi_sgd": 1, "sgd": 1}, ["seen"])


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_an_update_that_reads_an_updated_parameter_is_not_moved(order: Any) -> None:
    updates = two()
    for name in order:
        updates.sgd(name, "a" if name == "b" else "a_grad", "rate")
    updates.sgd("c", "c_grad", "rate")
    check(updates, {"std.multi_sgd": 1, "sgd": 1})


def test_a_gradient_is_used_before_it_is_overwritten() -> None:
    updates = two()
    updates.sgd("a", "a_grad", "rate")
    updates.block.append_op("scale", {"x": "a_grad"}, {"out": "a_grad"}, {"scale": 0.5})
    updates.sgd("b", "a_grad", "rate")
    updates.sgd("c", "a_grad", "rate")
    check(updates, {"std.multi_sgd": 1, "sgd": 1})


def test_the_last_update_reads_updated_parameters() -> None:
    updates = two()
    updates.sgd("a", "a_grad", "rate")
    updates.sgd("c", "c_grad", "rate")
    updates.sgd("b", "a", "rate")
    check(updates, {"std.multi_sgd": 1, "sgd": 1})


def test_a_parameter_is_read_before_the_last_update_writes_it() -> None:
    updates = two()
    updates.sgd("a", "b", "rate")
    updates.sgd("c", "c_grad", "rate")
    updates.sgd("b", "b_grad", "rate")
    check(updates, {"std.multi_sgd": 1, "sgd": 1})
