"""A producer and its consumer are replaced at once by operators connected through a new value."""

from __future__ import annotations

import pytest

from opwright import context_guard
from opwright.errors import PluginError
from opwright.lowering.rewriting.passes import find_violation

from .toy_graphs import graph_of, op, sgd, types

MAKER, READER = ("tanh", "h", "x"), ("multiply", "out", "h")


def _pair(*between, behind=(), **given):
    """Return a graph of ``h = tanh(x); ...; out = h * y`` with operators in between."""
    return graph_of([op(*MAKER), *between, op(*READER, y="y"), *behind], **given)


def _exchange(graph, edit=None, turned=False):
    """Replace tanh and product by operators connected through a new value instead of h."""
    (maker,), (reader,) = graph.of_type("tanh"), graph.of_type("multiply")
    (x,), (h,), (y,) = maker.inputs[0], maker.outputs[0], reader.inputs[1]
    other = graph.value("other", h.meta)
    first = graph.make("sigmoid", {"x": x}, {"out": other}, like=maker)
    second = graph.make("add", {"x": other, "y": y}, {"out": reader.outputs[0]}, like=reader)
    pairs = {reader: first, maker: second} if turned else {reader: second, maker: first}
    return (edit or graph.edit()).exchange(pairs)


def test_each_new_operator_has_the_position_of_the_replaced_operator(context):
    graph = _pair(op("relu", "z", "x"), fetches=("out", "z"))
    edit = graph.edit()
    assert _exchange(graph, edit)
    assert edit.apply()
    assert types(graph) == ["sigmoid", "relu", "add"]
    assert graph.ops[2].inputs[0][0].op is graph.ops[0]
    assert [op.origins for op in graph.ops[::2]] == [(0,), (2,)]
    assert find_violation(graph) is None


@pytest.mark.parametrize(
    "case",
    [
        {"behind": [op("relu", "z", "h")], "fetches": ("out", "z")},
        {"fetches": ("out", "h")},
        {"lasting": ("h",)},
    ],
    ids=["read by another", "fetched", "persistable"],
)
def test_an_exchange_that_removes_a_needed_value_is_refused(context, case):
    graph = _pair(**case)
    assert not _exchange(graph)
    assert types(graph)[:2] == ["tanh", "multiply"]


def test_a_replacement_must_not_read_a_value_before_it_is_written(context):
    assert not _exchange(_pair(), turned=True)


def test_a_replacement_must_not_read_overwritten_memory(context):
    ops = [op("tanh", "h", "w"), sgd("w", "x"), op(*READER, y="y")]
    graph = graph_of(ops, persistables=("w",), lasting=("w",))
    maker, _, reader = graph.ops
    (w,), (h,), (y,) = maker.inputs[0], maker.outputs[0], reader.inputs[1]
    early = graph.make("relu", {"x": w}, {"out": h}, like=maker)
    late = graph.make("add", {"x": w, "y": y}, {"out": reader.outputs[0]}, like=reader)
    right = graph.make("add", {"x": h, "y": y}, {"out": reader.outputs[0]}, like=reader)
    assert not graph.edit().exchange({maker: early, reader: late})
    edit = graph.edit()
    assert edit.exchange({maker: early, reader: right})
    edit.apply()
    assert types(graph) == ["relu", "toy.step", "add"]
    assert find_violation(graph) is None


def test_an_operator_with_a_pinned_kernel_is_not_exchanged(context):
    with context_guard(context.with_pins({"tanh": "numpy"})):
        assert not _exchange(_pair())


def test_an_operator_cannot_be_exchanged_twice(context):
    graph = _pair()
    edit = graph.edit()
    assert _exchange(graph, edit)
    assert not _exchange(graph, edit)
    (reader,) = graph.of_type("multiply")
    assert not edit.fuse([reader], [])


def test_operators_that_are_not_in_the_graph_are_refused(context):
    graph, other = _pair(), _pair()
    pairs = dict(zip(other.ops, graph.ops, strict=True))
    for wrong in (pairs, {}):
        with pytest.raises(PluginError, match="exchange: keys must be operators of the graph"):
            graph.edit().exchange(wrong)
