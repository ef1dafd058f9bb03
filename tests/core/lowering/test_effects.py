"""An operator with a side effect runs in order, even if its output is not requested."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow

from .toy_graphs import TOY, graph_of, make_toy, op


@pytest.fixture
def runs(context) -> list[str]:
    """The types of the operators that have run; only ``toy.meet`` has a side effect."""
    done: list[str] = []

    def noting(type):
        def kernel(x, out, *, factor):
            done.append(type)
            np.copyto(out, x)

        return kernel

    for type, effect in [("toy.meet", True), ("toy.plain", False)]:
        context.ops.add(type, make_toy(type, ["x"], effect=effect), TOY)
        kernel = noting(type)
        context.kernels.add(
            type, device="cpu", dtypes=["float32"], kernel=kernel, library="toy", package=TOY
        )
    return done


@pytest.mark.parametrize("passes", [None, []])
def test_an_unread_operator_with_an_effect_runs(runs, passes) -> None:
    block = ow.Program().global_block()
    block.create_var("x", [4])
    block.append_op("toy.meet", {"x": "x"}, {"out": "met"})
    block.append_op("toy.plain", {"x": "x"}, {"out": "unread"})
    block.append_op("relu", {"x": "x"}, {"out": "out"})
    call = ow.Network(block).compile(feed=["x"], fetch=["out"], passes=passes)
    call(x=np.ones(4, np.float32))
    assert runs == ["toy.meet"]


def test_the_inputs_of_an_operator_with_an_effect_are_computed(runs) -> None:
    block = ow.Program().global_block()
    block.create_var("x", [4])
    block.append_op("toy.plain", {"x": "x"}, {"out": "h"})
    block.append_op("toy.meet", {"x": "h"}, {"out": "met"})
    block.append_op("relu", {"x": "x"}, {"out": "out"})
    ow.Network(block).compile(feed=["x"], fetch=["out"])(x=np.ones(4, np.float32))
    assert runs == ["toy.plain", "toy.meet"]


def test_passes_cannot_move_an_operator_with_an_effect(runs) -> None:
    graph = graph_of(
        [op("toy.meet", "a", "x"), op("toy.plain", "b", "x"), op("relu", "c", "x")], fetches=("c",)
    )
    meet, plain, relu = graph.ops
    uses = graph.uses()
    assert uses.may_move(plain, relu)
    assert not uses.may_move(meet, relu)
    (x,), (out,) = meet.inputs[0], relu.outputs[0]
    made = graph.make("add", {"x": x, "y": x}, {"out": out}, like=relu)
    assert not graph.edit().fuse([meet, relu], [made])
    assert graph.edit().fuse([plain, relu], [made])
