"""A derived gradient accepts only shapes that are consistent with its forward operator."""

from __future__ import annotations

import re

import pytest

from opwright.describe.gradient_rules import derive_grad_definition
from opwright.errors import ShapeError
from opwright.op import Meta, OpMaker, grad_op

from .complex_operator import complex_definition


def complex_inputs(**changed):
    """Return consistent input metas in slot order, with the slots in `changed` replaced."""
    f32 = Meta((2, -1), "float32")
    slots = {
        "weight": (f32,),
        "x": (Meta((1,), "float32"), Meta((2,), "float32")),
        "bias": (Meta((7,), "float64"),),
        "index": (Meta((1,), "int32"),),
        "state": (Meta((1,), "float32"),),
        "saved": (Meta((2, 5), "float32"),),
        "positions": (Meta((1,), "int32"),),
        "out_grad": (Meta((1,), "float32"), Meta((2,), "float32")),
    }
    return tuple((slots | changed).values())


def test_gradients_have_the_metas_of_their_inputs():
    definition = derive_grad_definition(complex_definition())
    weight, x, bias, *_ = inputs = complex_inputs()
    assert definition.infer(inputs, {}, (1, 2, 1)) == (weight, x, bias)
    assert definition.infer(inputs, {}, (0, 2, 0)) == ((), x, ())


def test_a_gradient_list_with_the_wrong_length_is_refused():
    definition = derive_grad_definition(complex_definition())
    with pytest.raises(
        ShapeError, match=re.escape("acme.op_grad: output 'x_grad' takes 1 variable")
    ):
        definition.infer(complex_inputs(), {}, (0, 1, 0))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"saved": (Meta((3, 5), "float32"),)},
            "acme.op_grad: saved must be float32[2, ?], as acme.op makes saved, got float32[3, 5]",
        ),
        (
            {"positions": (Meta((), "int32"),)},
            "acme.op_grad: positions must be int32[1], as acme.op makes positions, got int32[]",
        ),
        (
            {"out_grad": (Meta((1,), "float32"), Meta((3,), "float32"))},
            (
                "acme.op_grad: out_grad must be float32[1], float32[2], as acme.op makes out, "
                "got float32[1], float32[3]; pass the arrays of one forward call"
            ),
        ),
    ],
)
def test_inputs_inconsistent_with_the_forward_operator_are_refused(changed, message):
    definition = derive_grad_definition(complex_definition())
    with pytest.raises(ShapeError, match=re.escape(message)):
        definition.infer(complex_inputs(**changed), {}, (1, 2, 1))


def test_a_gradient_for_too_few_variables_is_refused():
    definition = derive_grad_definition(complex_definition())
    one = complex_inputs(out_grad=(Meta((1,), "float32"),))
    with pytest.raises(ShapeError, match=r"acme.op_grad: .* output 'out' takes 1 variable"):
        definition.infer(one, {}, (1, 2, 1))


def test_an_absent_output_gradient_is_not_checked():
    definition = derive_grad_definition(complex_definition())
    weight, x, bias, *_ = inputs = complex_inputs(out_grad=())
    assert definition.infer(inputs, {}, (1, 2, 1)) == (weight, x, bias)


def test_a_gradient_operator_refuses_the_inputs_that_its_forward_operator_refuses():
    def infer_shape(ctx):
        ctx.require_shape("y", ctx.input("x").shape)
        ctx.set_output("out", ctx.input("x").shape)

    maker = OpMaker("acme.op").add_comment("c").add_input("x", "c").add_input("y", "c")
    maker.same_dtype_as("x").add_output("out", "c").same_dtype_as("x")
    definition = maker.build(infer_shape, gradient=grad_op("acme.op_grad"))
    x, y = (Meta((2,), "float32"),), (Meta((3,), "float32"),)
    message = (
        "acme.op_grad: its inputs must fit acme.op, got acme.op: y must have the shape [2], got [3]"
    )
    with pytest.raises(ShapeError, match=re.escape(message)):
        derive_grad_definition(definition).infer((x, y, x), {}, (1, 1))
