"""Operators for the tests of `describe`, and a recorder that stands in for a program."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings

from opwright.op import OpDefinition, OpMaker, elementwise_shape, grad_op, same_shape_as

# Hypothesis generates the same cases in each run, without a deadline.
settings.register_profile("opwright", deadline=None, derandomize=True)
settings.load_profile("opwright")


def make_swish() -> OpDefinition:
    """Return the operator of the third-party example package."""
    return (
        OpMaker("acme.swish")
        .add_comment("Swish, out = x * sigmoid(beta * x). Ramachandran et al., 2017.")
        .add_input("x", "any shape, float")
        .add_output("out", "shape and dtype of x")
        .same_dtype_as("x")
        .add_attr("beta", float, "steepness")
        .default(1.0)
        .greater_than(0.0)
        .build(infer_shape=same_shape_as("x"), gradient=grad_op("acme.swish_grad", needs=["x"]))
    )


def make_add() -> OpDefinition:
    """Return an operator that broadcasts two inputs of equal dtype."""
    return (
        OpMaker("add")
        .add_comment("out = x + y, broadcast.")
        .add_input("x", "any shape")
        .add_input("y", "any shape")
        .same_dtype_as("x")
        .add_output("out", "broadcast shape")
        .same_dtype_as("x")
        .build(elementwise_shape("x", "y"))
    )


@pytest.fixture
def swish() -> OpDefinition:
    return make_swish()


@pytest.fixture
def add() -> OpDefinition:
    return make_add()


@dataclass
class Op:
    """A minimal operator with only the fields that rules read."""

    type: str
    inputs: dict[str, tuple[str, ...]]
    outputs: dict[str, tuple[str, ...]]
    attrs: dict[str, Any] = field(default_factory=dict)


@dataclass
class Recorder:
    """An emitter that records calls; without `outputs`, an operator has one output `out`."""

    ops: list[Op] = field(default_factory=list)
    block: str = "the block"
    program: str = "the program"

    def emit(self, type, inputs, outputs, attrs):
        wanted = dict(outputs) or {"out": 1}
        names = {}
        for slot, given in wanted.items():
            fresh = [f"t{len(self.ops)}_{slot}_{i}" for i in range(9)]
            names[slot] = fresh[:given] if isinstance(given, int) else list(given)
        self.ops.append(Op(type, inputs, {s: tuple(n) for s, n in names.items()}, attrs))
        return names

    def meta(self, name):
        return None


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def make_op() -> type[Op]:
    return Op
