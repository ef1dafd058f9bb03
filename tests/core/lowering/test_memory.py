"""The memory planner lets only values with disjoint lifetimes share memory."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
from opwright import _runtime, current_context
from opwright.errors import OutOfMemoryError
from opwright.lowering import Fetches, Given, LowerRequest, Target, lower
from opwright.lowering.building.build_graph import GraphBuilder
from opwright.lowering.kernels.select import select_kernels
from opwright.lowering.layout.memory import LEAST_SHARED_BYTES, plan_memory
from opwright.op import Meta


def _planned(ops, given, fetches):
    request = LowerRequest(ops, Target(current_context()), Given(given), fetches=Fetches(fetches))
    graph = GraphBuilder(request, lower).build()
    select_kernels(graph)
    return graph, plan_memory(graph, _runtime.host_device())


def _random_ops(seed, count):
    """Return operators that read random earlier values, so lifetimes of all lengths occur."""
    rng = np.random.default_rng(seed)
    names, ops = ["x"], []
    for i in range(count):
        a, b = rng.choice(names[-6:], 2)
        kind = rng.choice(["relu", "add", "sum", "concat"])
        if kind == "relu":
            ops.append(ow.Operator("relu", x=a, out=f"v{i}"))
        elif kind == "add":
            ops.append(ow.Operator("add", x=a, y=b, out=f"v{i}"))
        elif kind == "sum":
            ops.append(ow.Operator("sum", x=a, out=f"v{i}", axis=[0], keepdims=True))
        else:
            ops.append(ow.Operator("tanh", x=a, out=f"v{i}"))
        names.append(f"v{i}")
    return ops, names


@pytest.mark.parametrize("seed", range(8))
def test_values_with_overlapping_lifetimes_never_share_memory(seed):
    ops, names = _random_ops(seed, 60)
    graph, slots = _planned(ops, {"x": Meta((16, 3), "float32")}, [names[-1], names[20]])
    last_read = {}
    for position, op in enumerate(graph.ops):
        for value in op.data_reads():
            last_read[value] = position
    owner = {}
    for position, op in enumerate(graph.ops):
        for value in op.data_reads():
            buffer = value.buffer.root()
            if buffer.is_owned:
                assert owner[buffer.slot] is value, f"{value} was overwritten before {op}"
        for value in op.writes():
            buffer = value.buffer.root()
            if buffer.is_owned:
                held = owner.get(buffer.slot)
                assert held is None or last_read.get(held, -1) <= position
                owner[buffer.slot] = value
                assert slots[None][buffer.slot] >= buffer.size


def test_a_long_chain_needs_at_most_two_slots():
    ops = [ow.Operator("softmax", x=f"v{i}", out=f"v{i + 1}") for i in range(50)]
    _, slots = _planned(ops, {"v0": Meta((100,), "float32")}, ["v50"])
    assert len(slots[None]) <= 2


def test_in_place_chains_need_one_buffer():
    ops = [ow.Operator("exp", x=f"v{i}", out=f"v{i + 1}") for i in range(50)]
    _, slots = _planned(ops, {"v0": Meta((100,), "float32")}, ["v50"])
    assert len(slots[None]) == 1


@pytest.mark.parametrize(("n", "count"), [(LEAST_SHARED_BYTES // 4, 1), (100, 2)])
def test_python_kernels_work_in_place_on_large_arrays(reference_kernels, n, count):
    ops = [ow.Operator("exp", x=f"v{i}", out=f"v{i + 1}") for i in range(50)]
    _, slots = _planned(ops, {"v0": Meta((n,), "float32")}, ["v50"])
    assert len(slots[None]) == count


def test_slots_are_aligned():
    ops, names = _random_ops(3, 30)
    _, slots = _planned(ops, {"x": Meta((7, 5), "float64")}, [names[-1]])
    offsets = np.cumsum([0, *slots[None]])
    assert all(offset % _runtime.host_device().alignment == 0 for offset in offsets)


def test_an_input_that_is_read_twice_is_not_overwritten():
    ops = [
        ow.Operator("exp", x="x", out="a"),
        ow.Operator("multiply", x="a", y="a", out="b"),
        ow.Operator("exp", x="b", out="c"),
    ]
    graph, _ = _planned(ops, {"x": Meta((8,), "float32")}, ["c"])
    a = graph.ops[1].inputs[0][0].buffer.root()
    assert graph.ops[1].outputs[0][0].buffer.root() is not a


def test_the_error_for_an_arena_beyond_64_bits_names_its_largest_values():
    ops = [
        ow.Operator("fill", out="few", shape=[2**20]),
        ow.Operator("fill", out="some", shape=[2**60]),
        ow.Operator("fill", out="many", shape=[2**60 + 2**58]),
        ow.Operator("sum", x=["few"], out="s"),
        ow.Operator("sum", x=["some"], out="t"),
        ow.Operator("sum", x=["many"], out="u"),
        ow.Operator("add_n", x=["s", "t", "u"], out="v"),
    ]
    with pytest.raises(
        OutOfMemoryError,
        match=r"plan: its values must have less than 2..63 bytes together, got 1037\d{16} bytes, "
        r"the largest in 'many' float32.* bytes, 'some' .* bytes, 'few' .*; make them smaller",
    ):
        ow.Network(ops).compile(feed=[], fetch=["v"])()
