"""Provides the fixture `context`, a Context with toy operators, to the lowering tests."""

from __future__ import annotations

import pytest

import opwright as ow
from opwright import context_guard
from opwright.registry import PassRegistry

from .toy_graphs import TOY, add_relu, make_step, make_toy, step


@pytest.fixture
def context():
    made = ow.Context.discover()
    made.passes = PassRegistry()  # installed passes would fuse the operators of these tests
    made.ops.add("toy.add_relu", make_toy("toy.add_relu", ["x", "y"]), TOY)
    made.ops.add("toy.orphan", make_toy("toy.orphan", ["x", "y"]), TOY)
    made.ops.add("toy.step", make_step(), TOY)
    for name, kernel in [("toy.add_relu", add_relu), ("toy.step", step)]:
        made.kernels.add(
            name, device="cpu", dtypes=["float32"], kernel=kernel, library="toy", package=TOY
        )
    with context_guard(made):
        yield made
