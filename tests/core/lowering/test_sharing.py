"""Equal operators share objects, and shared objects are freed after lowering."""

from __future__ import annotations

import gc
from itertools import pairwise

import pytest

import opwright as ow
from opwright import current_context
from opwright.lowering import Fetches, Given, LowerRequest, Persistables, Target, lower
from opwright.lowering.graph.signature import attrs_key
from opwright.op import Meta, OpMaker, no_gradient

from .toy_graphs import TOY


def _chain(length):
    names = ["x", *[f"h{i}" for i in range(length)]]
    ops = [ow.Operator("tanh", x=a, out=b) for a, b in pairwise(names)]
    return LowerRequest(
        ops,
        Target(current_context()),
        Given({"x": Meta((8,), "float32")}),
        fetches=Fetches([names[-1]]),
    )


def _left_to_the_collector(length):
    """Return the number of objects in reference cycles after a chain was lowered."""
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


def test_building_a_plan_does_not_leave_cyclic_garbage():
    assert _left_to_the_collector(320) <= _left_to_the_collector(32) + 32


@pytest.mark.parametrize(
    ("a", "b"),
    [(0.0, -0.0), ((0.0, 1.0), (-0.0, 1.0)), ((1.0, -0.0), (1.0, 0.0)), ((0.0,), (0.0, 0.0))],
)
def test_attributes_that_differ_in_the_sign_of_zero_have_different_keys(a, b):
    assert attrs_key({"v": a}) != attrs_key({"v": b})
    assert attrs_key({"v": a}) == attrs_key({"v": a})


def test_outputs_that_do_not_depend_on_feeds_are_inferred_only_for_the_first_plan(context):
    inferred = []

    def infer_shape(ctx):
        inferred.append(ctx.input("x").shape)
        ctx.set_output("out", ctx.input("x").shape)

    def copy(x, out):
        out[...] = x

    maker = OpMaker("toy.copy").add_comment("A toy.").add_input("x", "any shape")
    maker.add_output("out", "as x").same_dtype_as("x")
    context.ops.add("toy.copy", maker.build(infer_shape, no_gradient("a toy")), TOY)
    context.kernels.add(
        "toy.copy", device="cpu", dtypes=["float32"], kernel=copy, library="toy", package=TOY
    )
    ops = [ow.Operator("toy.copy", x="w", out="a"), ow.Operator("toy.copy", x="x", out="b")]
    target = Target(context)
    for length in (2, 3):
        given, scope = {"x": Meta((length,), "float32")}, {"w": Meta((5,), "float32")}
        plan = lower(
            LowerRequest(ops, target, Given(given), Persistables(scope), Fetches(["a", "b"]))
        )
        assert [meta.shape for meta in plan.fetch_metas] == [(5,), (length,)]
    assert inferred == [(5,), (2,), (3,)]
