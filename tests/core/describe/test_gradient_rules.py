"""Gradient rules have the right inputs and outputs, and omitted gradients raise errors."""

from __future__ import annotations

import inspect
import re

import pytest

from opwright.describe.gradient_rules import derive_grad_definition
from opwright.errors import (
    AttributeValueError,
    GradientError,
    RegistrationError,
    SlotError,
)
from opwright.op import (
    BodyContext,
    GradientContext,
    OpMaker,
    grad_op,
    same_shape_as,
)

from .complex_operator import complex_definition


def swish_grad(x, out_grad, x_grad, *, beta):
    """The kernel of the third-party example package."""


def context(definition, op, recorder, grads, wanted):
    return GradientContext(op, definition.proto, recorder, grads, wanted)


@pytest.fixture
def swish_op(make_op):
    return make_op("acme.swish", {"x": ("a",)}, {"out": ("b",)}, {"beta": 2.0})


# -- the derived operator --------------------------------------------------------------------------


def test_the_parameters_of_a_third_party_kernel_match_the_derived_slots(swish):
    proto = derive_grad_definition(swish).proto
    parameters = inspect.signature(swish_grad).parameters.values()
    slots = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert slots == [*proto.input_slots, *proto.output_slots]
    assert [p.name for p in parameters if p.kind is p.KEYWORD_ONLY] == list(proto.attr_protos)


def test_the_derived_operator_has_a_complete_proto(swish):
    proto = derive_grad_definition(swish).proto
    assert proto.type == "acme.swish_grad"
    assert proto.dispatch_slot == "x"
    assert proto.attrs == swish.proto.attrs
    out_grad, x_grad = proto.input("out_grad"), proto.output("x_grad")
    assert (out_grad.optional, out_grad.same_as) == (False, "x")
    assert (x_grad.optional, x_grad.same_as) == (True, "x")


def test_the_slots_of_the_derived_operator_have_a_fixed_order():
    proto = derive_grad_definition(complex_definition()).proto
    assert list(proto.input_slots) == [
        "weight",
        "x",
        "bias",
        "index",
        "state",
        "saved",
        "positions",
        "out_grad",
    ]
    assert list(proto.output_slots) == ["weight_grad", "x_grad", "bias_grad"]
    shape_only = [slot.name for slot in proto.inputs if slot.shape_only]
    assert shape_only == ["x", "bias", "index", "state", "positions"]
    assert [slot.name for slot in proto.inputs if slot.optional] == ["bias"]
    assert [slot.name for slot in proto.inputs if slot.duplicable] == ["x", "out_grad"]
    assert all(slot.optional for slot in proto.outputs)
    assert proto.output("x_grad").duplicable
    assert proto.version == 3


def test_the_derived_operator_dispatches_like_its_forward_operator():
    chain = OpMaker("acme.op").add_comment("c").add_input("index", "c").dtypes("int32")
    chain.add_input("x", "c").add_output("out", "c").same_dtype_as("x").dispatch_on("x")
    definition = chain.build(same_shape_as("x"), gradient=grad_op("acme.op_grad"))
    assert derive_grad_definition(definition).proto.dispatch_slot == "x"


def test_only_operators_with_a_grad_op_have_a_derived_gradient(swish, add):
    with pytest.raises(RegistrationError, match=r"add: its gradient must be a grad_op, got None"):
        derive_grad_definition(add)


def test_derived_names_must_not_clash():
    definition = (
        OpMaker("acme.op")
        .add_comment("c")
        .add_input("x", "c")
        .add_input("x_grad", "c")
        .dtypes("int32")
        .add_output("out", "c")
        .same_dtype_as("x")
        .build(same_shape_as("x"), gradient=grad_op("acme.op_grad"))
    )
    with pytest.raises(
        RegistrationError, match=r"acme.op_grad: slots and attributes must have diff"
    ):
        derive_grad_definition(definition)


# -- grad_op as a rule -----------------------------------------------------------------------------


def test_the_rule_emits_one_operator_and_sets_the_input_gradients(swish, swish_op, recorder):
    g = context(swish, swish_op, recorder, {"out": ["b_grad"]}, {"x": [True]})
    swish.gradient(g)
    g.check_complete()
    (op,) = recorder.ops
    assert op.type == "acme.swish_grad"
    assert op.inputs == {"x": ("a",), "out_grad": ("b_grad",)}
    assert op.attrs == {"beta": 2.0}
    assert g.input_grads == {("x", 0): op.outputs["x_grad"][0]}


@pytest.fixture
def complex_op(make_op):
    return make_op(
        "acme.op",
        {"weight": ("w",), "x": ("a", "b"), "index": ("i",), "state": ("s",)},
        {
            "out": ("c", "d"),
            "count": ("n",),
            "saved": ("v",),
            "positions": ("p",),
            "state_out": ("s",),
        },
    )


def test_the_rule_requests_wanted_gradients_and_replaces_missing_gradients_with_zeros(
    complex_op, recorder
):
    definition = complex_definition()
    g = context(
        definition,
        complex_op,
        recorder,
        {"out": [None, "d_grad"]},
        {"weight": [False], "x": [False, True]},
    )
    definition.gradient(g)
    g.check_complete()
    zero, op = recorder.ops
    assert (zero.type, zero.inputs, zero.attrs) == ("fill_like", {"x": ("c",)}, {"value": 0.0})
    assert op.inputs["out_grad"] == (zero.outputs["out"][0], "d_grad")
    assert op.inputs["saved"] == ("v",)
    assert "bias" not in op.inputs
    assert list(op.outputs) == ["x_grad"]
    assert g.input_grads == {("x", 1): op.outputs["x_grad"][1]}


@pytest.mark.parametrize(
    ("grads", "wanted", "message"),
    [
        (
            {"saved": ["v_grad"]},
            {"weight": [True]},
            "acme.op: no gradient flows back through output 'saved', got ['v_grad']",
        ),
        (
            {"state_out": ["s_grad"]},
            {"weight": [True]},
            "acme.op: no gradient flows back through output 'state_out', got ['s_grad']",
        ),
        (
            {"out": ["c_grad", None]},
            {"state": [True]},
            (
                "acme.op: input 'state' has no gradient, got a request for the gradient of ['s']; "
                "give its variable stop_gradient=True"
            ),
        ),
    ],
)
def test_a_gradient_that_the_derived_operator_cannot_compute_is_refused(
    complex_op, recorder, grads, wanted, message
):
    definition = complex_definition()
    with pytest.raises(GradientError, match=re.escape(message)):
        definition.gradient(context(definition, complex_op, recorder, grads, wanted))
    assert recorder.ops == []


# -- rules written as functions --------------------------------------------------------------------


@pytest.fixture
def g(complex_op, recorder):
    grads = {"out": [None, "d_grad"]}
    return context(complex_definition(), complex_op, recorder, grads, {"x": [True, False]})


def test_a_rule_can_read_the_operator(g):
    assert g.type == "acme.op"
    assert (g.input("weight"), g.input("bias"), g.inputs("x")) == ("w", None, ["a", "b"])
    assert (g.has_input("weight"), g.has_input("bias")) == (True, False)
    assert (g.output("saved"), g.outputs("out")) == ("v", ["c", "d"])
    assert (g.output_grad("saved"), g.output_grads("out")) == (None, [None, "d_grad"])
    assert g.output_grad("out") is None
    assert (g.wants("x"), g.wants("x", 1), g.wants("weight")) == (True, False, False)
    assert (g.block, g.program) == ("the block", "the program")
    assert g.meta("w") is None


def test_the_error_for_a_mistyped_name_in_a_rule_suggests_the_nearest(g):
    with pytest.raises(
        SlotError, match=r"acme.op: unknown input, got 'wieght'; did you mean 'weight"
    ):
        g.input("wieght")
    with pytest.raises(SlotError, match=r"acme.op: unknown output, got 'outs'; did you mean 'out'"):
        g.output_grads("outs")
    with pytest.raises(
        SlotError, match=r"acme.op: unknown input, got 'biass'; did you mean 'bias'"
    ):
        g.wants("biass")
    with pytest.raises(
        AttributeValueError, match=r"acme.op: unknown attribute, got 'beta'; it has no"
    ):
        g.attr("beta")


def test_emit_returns_the_first_output_and_omits_absent_outputs(g, recorder):
    name = g.emit("multiply", {"x": "a", "y": ["b"], "z": None, "l": []}, attrs={"scale": 2.0})
    (op,) = recorder.ops
    assert (op.type, op.inputs, op.attrs) == (
        "multiply",
        {"x": ("a",), "y": ("b",)},
        {"scale": 2.0},
    )
    assert name == op.outputs["out"][0]


def test_emit_writes_to_the_given_outputs(g, recorder):
    outputs = {"mask": None, "out": "here", "parts": 2, "rest": ["r"]}
    names = g.emit_multi("op", {"x": "a"}, outputs)
    assert names == {"out": ["here"], "parts": ["t0_parts_0", "t0_parts_1"], "rest": ["r"]}
    assert g.emit("op", {"x": "a"}, {"out": "here"}) == "here"


def test_a_list_with_missing_gradients_is_refused(g):
    message = "acme.op: its rule must give 'x' of 'add_n' a list without None, got [None,"
    with pytest.raises(GradientError, match=re.escape(message)):
        g.emit("add_n", {"x": g.output_grads("out")})


def test_unrequested_gradients_are_skipped(g):
    g.set_input_grad("x", "a_grad", 0)
    g.set_input_grad("x", "b_grad", 1)
    g.set_input_grad("weight", "w_grad")
    assert g.input_grads == {("x", 0): "a_grad"}


def test_a_gradient_is_set_once_and_only_for_existing_variables(g):
    g.set_input_grad("x", "a_grad")
    with pytest.raises(
        GradientError, match=r"acme.op: its gradient rule must set the gradient of 'x'"
    ):
        g.set_input_grad("x", "other")
    with pytest.raises(
        SlotError, match=re.escape("acme.op: its gradient rule sets the gradient of 'x'")
    ):
        g.set_input_grad("x", "c_grad", 2)
    with pytest.raises(SlotError, match=re.escape("got 0 variable(s) there")):
        g.set_input_grad("bias", "bias_grad")
    with pytest.raises(SlotError, match=r"acme.op: unknown input, got 'xx'"):
        g.set_input_grad("xx", "name")


def test_a_rule_that_omits_a_gradient_raises(g):
    g.output_grads("out")
    message = "acme.op: its gradient rule must set the gradient of 'x'[0], got none"
    with pytest.raises(GradientError, match=re.escape(message)):
        g.check_complete()
    g.set_input_grad("x", None)  # intentionally zero
    g.check_complete()
    assert g.input_grads == {("x", 0): None}


def test_a_rule_that_ignores_an_output_gradient_raises(g):
    g.set_input_grad("x", "a_grad")
    message = (
        "acme.op: its gradient rule must use the gradient of output 'out', got [None, 'd_grad']"
    )
    with pytest.raises(GradientError, match=re.escape(message)):
        g.check_complete()


def test_zero_output_gradients_need_not_be_requested(complex_op, recorder):
    grads = {"out": [None, None], "state_out": [None]}
    g = context(complex_definition(), complex_op, recorder, grads, {"weight": [True]})
    with pytest.raises(GradientError, match=r"must set the gradient of 'weight', got none"):
        g.check_complete()
    g.set_input_grad("weight", "w_grad")
    g.check_complete()


def test_a_nonzero_output_gradient_must_be_requested(swish, swish_op, recorder):
    g = context(swish, swish_op, recorder, {"out": ["b_grad"]}, {"x": [False]})
    with pytest.raises(GradientError, match=r"must use the gradient of output 'out', got \['b_g"):
        g.check_complete()
    assert g.output_grad("out") == "b_grad"
    g.check_complete()


def test_zeros_are_materialized_only_if_another_gradient_is_nonzero(g, recorder):
    assert g.filled_output_grads("saved") == []
    assert recorder.ops == []
    assert g.filled_output_grads("out") == ["t0_out_0", "d_grad"]


# -- bodies ----------------------------------------------------------------------------------------


def test_a_body_emits_simpler_operators(swish, swish_op, recorder):
    b = BodyContext(swish_op, swish.proto, recorder)
    assert (b.attr("beta"), b.has_output("out")) == (2.0, True)
    scaled = b.emit("scale", {"x": b.input("x")}, attrs={"scale": b.attr("beta")})
    b.emit("multiply", {"x": scaled, "y": "a"}, {"out": b.output("out")})
    assert [op.type for op in recorder.ops] == ["scale", "multiply"]
    assert recorder.ops[1].outputs == {"out": ("b",)}


def test_a_body_can_copy_into_its_output(complex_op, recorder):
    b = BodyContext(complex_op, complex_definition().proto, recorder)
    b.set_output("out", "value", 1)
    b.set_output("out", "value", 2)  # not requested
    (op,) = recorder.ops
    assert (op.type, op.inputs, op.outputs) == ("assign", {"x": ("value",)}, {"out": ("d",)})
