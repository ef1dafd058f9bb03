"""Large buffers are packed so that live buffers do not overlap and little memory is wasted."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import opwright as ow
from opwright import _runtime, current_context
from opwright.lowering import Fetches, Given, LowerRequest, Target, lower
from opwright.lowering.building.build_graph import GraphBuilder
from opwright.lowering.graph.values import Buffer
from opwright.lowering.kernels.select import select_kernels
from opwright.lowering.layout import memory
from opwright.lowering.layout.memory import LEAST_PACKED_BYTES, pack, plan_memory
from opwright.op import Meta

ALIGNMENT = 64


def _buffers(seed, count):
    """Return buffers of all sizes with short or long lifetimes, in descending order of size."""
    rng = np.random.default_rng(seed)
    buffers = []
    for size in sorted(rng.integers(1, 5000, count).tolist(), reverse=True):
        buffer = Buffer(size)
        buffer.first = int(rng.integers(0, 50))
        buffer.last = buffer.first + int(rng.choice([0, 1, 2, 40]))
        buffers.append(buffer)
    return buffers


def _most_alive(buffers):
    """Return the peak number of live bytes, a lower bound for every layout."""
    return max(
        sum(-(-b.size // ALIGNMENT) * ALIGNMENT for b in buffers if b.first <= at <= b.last)
        for at in range(100)
    )


@pytest.mark.parametrize("seed", range(8))
def test_packed_buffers_with_overlapping_lifetimes_are_disjoint(seed):
    buffers = _buffers(seed, 80)
    total = pack(buffers, ALIGNMENT)
    for i, one in enumerate(buffers):
        assert one.offset % ALIGNMENT == 0
        assert one.offset + one.size <= total
        for other in buffers[:i]:
            if one.first <= other.last and other.first <= one.last:
                assert one.offset + one.size <= other.offset or other.offset + other.size <= (
                    one.offset
                )


@pytest.mark.parametrize("seed", range(8))
def test_packing_wastes_little_memory(seed):
    buffers = _buffers(seed, 80)
    assert pack(buffers, ALIGNMENT) <= 1.15 * _most_alive(buffers)


def test_an_empty_list_of_buffers_is_packed_into_0_bytes():
    assert pack([], ALIGNMENT) == 0


def _planned(ops, given, fetches):
    target = Target(current_context())
    request = LowerRequest(ops, target, Given(given), fetches=Fetches(fetches))
    graph = GraphBuilder(request, lower).build()
    select_kernels(graph)
    return graph, plan_memory(graph, _runtime.host_device())


def test_a_small_value_does_not_keep_the_memory_of_a_large_value():
    n = LEAST_PACKED_BYTES // 4
    ops = [
        ow.Operator("transpose", x="x", out="large", axes=[1, 0]),
        ow.Operator("sum", x="large", out="small", axis=[1]),
        ow.Operator("flip", x="small", out="kept", axis=[0]),  # would share the slot of "large"
        ow.Operator("transpose", x="x", out="large_again", axes=[1, 0]),
        ow.Operator("sum", x="large_again", out="total", axis=[1]),
        ow.Operator("add", x="kept", y="total", out="out"),
    ]
    _, slots = _planned(ops, {"x": Meta((4, n), "float32")}, ["out"])
    assert sum(slots[None]) == (4 + 1 + 1) * LEAST_PACKED_BYTES


@pytest.mark.parametrize("most", [1, 3, 512])
def test_a_large_number_of_buffers_is_packed_in_several_blocks(monkeypatch, most):
    monkeypatch.setattr(memory, "MOST_PACKED", most)
    ops = [ow.Operator("transpose", x=f"v{i}", out=f"v{i + 1}", axes=[1, 0]) for i in range(7)]
    graph, slots = _planned(ops, {"v0": Meta((128, 128), "float32")}, ["v7"])
    offsets = np.cumsum([0, *slots[None]])
    places = []
    for op in graph.ops[:-1]:
        buffer = op.outputs[0][0].buffer.root()
        begin = offsets[buffer.slot] + buffer.offset
        assert begin + buffer.size <= offsets[buffer.slot + 1]
        places.append(begin)
    assert len(slots[None]) == -(-len(places) // most)
    assert all(a != b for a, b in itertools.pairwise(places))


def test_a_plan_of_packed_values_matches_numpy():
    n = LEAST_PACKED_BYTES // 4
    x = np.random.default_rng(5).normal(size=(3, n)).astype("float32")
    ops = [
        ow.Operator("exp", x="x", out="a"),
        ow.Operator("sum", x="a", out="b", axis=[0], keepdims=True),
        ow.Operator("divide", x="a", y="b", out="c"),
        ow.Operator("add", x="c", y="x", out="d"),
        ow.Operator("multiply", x="d", y="a", out="e"),
        ow.Operator("sum", x="e", out="f", axis=[1]),
    ]
    (got,) = ow.Network(ops).compile(feed=["x"], fetch=["f"], passes=[])(x=x)
    a = np.exp(x.astype("float64"))
    expected = ((a / a.sum(axis=0) + x) * a).sum(axis=1)
    np.testing.assert_allclose(got, expected, rtol=1e-4)
