"""Tests edits of graphs cut into an early and a late half, and the values saved in between."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from opwright.lowering import Given
from opwright.lowering.graph.separation import least_separation
from opwright.lowering.graph.uses import find_late

from .toy_graphs import VEC, graph_of, op, types


def _graph(*ops, fetches):
    graph = graph_of([*ops], fetches=fetches)
    graph.late_feeds = frozenset(Given(late={"y": "y"}, metas={"y": VEC}).late)
    return graph


@pytest.mark.parametrize("is_late", [True, False])
def test_an_edit_that_makes_an_early_value_depend_on_a_late_feed_is_refused(context, is_late):
    graph = _graph(op("tanh", "h", "x"), op("multiply", "out", "h", y="y"), fetches=("h", "out"))
    (maker,), (reader,) = graph.of_type("tanh"), graph.of_type("multiply")
    (x,), (h,), (y,) = maker.inputs[0], maker.outputs[0], reader.inputs[1]
    other = y if is_late else x
    first = graph.make("add", {"x": x, "y": other}, {"out": h}, like=maker)
    second = graph.make("add", {"x": h, "y": y}, {"out": reader.outputs[0]}, like=reader)
    edit = graph.edit()
    assert edit.fuse([maker, reader], [first, second]) is not is_late
    assert edit.apply() is not is_late


def test_a_value_read_only_by_late_operators_can_be_fused_with_them(context):
    graph = _graph(op("tanh", "h", "x"), op("multiply", "out", "h", y="y"), fetches=("out",))
    (maker,), (reader,) = graph.of_type("tanh"), graph.of_type("multiply")
    inputs = {"x": maker.inputs[0], "y": reader.inputs[1]}
    fused = graph.make("add", inputs, {"out": reader.outputs[0]}, like=reader)
    edit = graph.edit()
    assert edit.fuse([maker, reader], [fused])
    assert edit.apply()
    assert types(graph) == ["add"]


def test_values_that_depend_on_a_late_feed_are_late(context):
    graph = _graph(
        op("tanh", "a", "x"), op("add", "b", "a", y="y"), op("tanh", "out", "b"), fetches=("out",)
    )
    ops, values = find_late(graph)
    assert [op in ops for op in graph.ops] == [False, True, True]
    assert {value.name for value in values} == {"y", "b", "out"}


def _random_values(seed):
    """Return value sizes, each value's inputs (None if not recomputable), and the wanted values."""
    rng = random.Random(seed)
    n = rng.randint(1, 8)
    sizes = [rng.randint(1, 9) for _ in range(n)]
    sources = []
    for value in range(n):
        kind = rng.random()
        chosen = rng.sample(range(value), rng.randint(0, min(value, 3)))
        sources.append(None if kind < 0.35 or (not chosen and kind < 0.9) else chosen)
    return sizes, sources, rng.sample(range(n), rng.randint(1, n))


def _is_enough(saved, sources, wanted):
    available = set(saved)
    for value, made_of in enumerate(sources):
        if made_of is not None and available.issuperset(made_of):
            available.add(value)
    return available.issuperset(wanted)


@pytest.mark.parametrize("seed", range(200))
def test_the_chosen_values_to_save_have_the_smallest_total_size(seed):
    sizes, sources, wanted = _random_values(seed)
    saved = least_separation(wanted, sources.__getitem__, sizes.__getitem__)
    assert _is_enough(saved, sources, wanted)
    n = len(sizes)
    choices = (chosen for k in range(n + 1) for chosen in combinations(range(n), k))
    least = min(sum(sizes[v] for v in c) for c in choices if _is_enough(c, sources, wanted))
    assert sum(sizes[value] for value in saved) == least
