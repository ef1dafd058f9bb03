"""What equal operators share, and that lowering leaves nothing of them behind."""

from __future__ import annotations

import gc
from itertools import pairwise

import pytest

import opwright as ow
from opwright import current_context
from opwright.lowering import Fetches, Given, LowerRequest, OpRange, Target, lower
from opwright.lowering.graph.signature import attrs_key
from opwright.op import Meta


def _chain(length):
    names = ["x", *[f"h{i}" for i in range(length)]]
    ops = [ow.Operator("tanh", x=a, out=b) for a, b in pairwise(names)]
    return LowerRequest(
        OpRange(ops),
        Target(current_context()),
        Given({"x": Meta((8,), "float32")}),
        fetches=Fetches([names[-1]]),
    )


def _left_to_the_collector(length):
    """How many objects only the garbage collector can free, after a chain was lowered."""
    request = _chain(length)
    lower(request)
    gc.collect()
    gc.disable()
    try:
        plan = lower(request)
        assert plan.placement.operators
        return gc.collect()
    finally:
        gc.enable()


def test_what_is_built_for_a_plan_needs_no_garbage_collector():
    assert _left_to_the_collector(320) <= _left_to_the_collector(32) + 32


@pytest.mark.parametrize(
    ("a", "b"),
    [(0.0, -0.0), ((0.0, 1.0), (-0.0, 1.0)), ((1.0, -0.0), (1.0, 0.0)), ((0.0,), (0.0, 0.0))],
)
def test_attributes_whose_zeros_differ_in_sign_have_different_keys(a, b):
    assert attrs_key({"v": a}) != attrs_key({"v": b})
    assert attrs_key({"v": a}) == attrs_key({"v": a})
