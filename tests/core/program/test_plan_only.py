"""Passes can insert plan-only operators into plans; programs cannot contain them."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
from opwright import Context, Program, context_guard
from opwright.errors import ProgramError, RegistrationError
from opwright.op import OpMaker, no_gradient, same_shape_as
from opwright.packages import Package
from opwright.program.serialize import program_to_bytes

ACME = Package("acme", "opwright-acme", "1.0")


def make(op_type, **how):
    maker = OpMaker(op_type).add_comment("Twice x.").add_input("x", "any")
    maker.add_output("out", "like x").same_dtype_as("x")
    return maker.build(infer_shape=same_shape_as("x"), **how)


def twice(x, out):
    out[...] = 2 * x


def four_times(x, out):
    out[...] = 4 * x


FUSED = make("acme.fused", plan_only=True)


def fuse(graph):
    first, second = graph.ops
    made = type(first)(FUSED, first.inputs, {}, second.index)
    made.outputs = second.outputs
    for value in second.writes():
        value.op = made
    graph.ops = [made]


@pytest.fixture
def context():
    made = Context()
    made.ops.add("acme.twice", make("acme.twice", gradient=no_gradient("a test")), ACME)
    made.ops.add("acme.fused", FUSED, ACME, hidden=True)
    for op_type, kernel in (("acme.twice", twice), ("acme.fused", four_times)):
        made.kernels.add(
            op_type, device="cpu", dtypes="*", kernel=kernel, library="acme", package=ACME
        )
    with context_guard(made):
        yield made


def test_a_pass_can_insert_a_plan_only_operator(context):
    context.passes.add("fuse", phase="fuse", function=fuse, package=ACME)
    network = ow.Network(
        [ow.Operator("acme.twice", x="a", out="b"), ow.Operator("acme.twice", x="b", out="c")]
    )
    run = network.compile(feed=["a"], fetch=["c"])
    np.testing.assert_array_equal(run(a=np.ones(3))[0], [4, 4, 4])
    assert network.placement().operators == 1


def test_a_plan_only_operator_is_not_listed(context):
    assert ow.list_ops() == ["acme.twice"]
    assert dir(ow.ops.acme) == ["twice"]


def test_a_plan_only_operator_cannot_be_called(context):
    with pytest.raises(AttributeError, match="acme.fused: .* must not be plan-only, got one that"):
        ow.ops.acme.fused(np.ones(3))


MUST_NOT = (
    "acme.fused: an operator of a program must not be plan-only, got one that passes of "
    "opwright-acme 1.0 put into plans; append the operators that it replaces"
)


def test_blocks_and_networks_refuse_a_plan_only_operator(context):
    program = Program()
    block = program.global_block()
    x = block.create_var("x", shape=[3], dtype="float32")
    with pytest.raises(ProgramError, match=MUST_NOT):
        block.append_op("acme.fused", {"x": x})
    with pytest.raises(ProgramError, match=MUST_NOT):
        block.prepend_op("acme.fused", {"x": x})
    with pytest.raises(ProgramError, match=MUST_NOT):
        ow.Operator("acme.fused", x="x", out="y")
    assert not block.ops


def test_a_file_with_a_plan_only_operator_is_refused(context):
    program = Program()
    block = program.global_block()
    x = block.create_var("x", shape=[3], dtype="float32")
    block.append_op("acme.twice", {"x": x})
    block.ops[0].type, block.ops[0].definition = "acme.fused", FUSED
    with pytest.raises(ProgramError, match=MUST_NOT):
        ow.Program.from_proto(program_to_bytes(program))


def test_a_plan_only_operator_must_be_hidden(context):
    with pytest.raises(RegistrationError, match="acme.seen: .* must be hidden, got hidden=False"):
        context.ops.add("acme.seen", make("acme.seen", plan_only=True), ACME)


@pytest.mark.parametrize("word", ["gradient", "body", "upgrade"])
def test_a_plan_only_operator_with_properties_for_programs_is_refused(word):
    said = no_gradient("no") if word == "gradient" else lambda *_: None
    with pytest.raises(RegistrationError, match="acme.bad: plan_only excludes gradient, body"):
        make("acme.bad", plan_only=True, **{word: said})
