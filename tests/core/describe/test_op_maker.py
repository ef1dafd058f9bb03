"""OpMaker builds operators through chained calls, and refuses incomplete operators."""

from __future__ import annotations

import copy
import pickle
import re

import numpy as np
import pytest

from opwright import Context, Program, context_guard, ops
from opwright.errors import AttributeValueError, RegistrationError, SlotError
from opwright.op import (
    BLOCK,
    DTYPES,
    AttrProto,
    AttrType,
    Branch,
    Loop,
    NoGradient,
    OpMaker,
    VarProto,
    grad_op,
    no_gradient,
    same_shape_as,
)
from opwright.packages import Package


def maker(type="acme.op"):
    """Return an OpMaker for a valid operator, which tests then make invalid."""
    return (
        OpMaker(type)
        .add_comment("An operator.")
        .add_input("x", "any shape")
        .add_output("out", "as x")
        .same_dtype_as("x")
    )


def build(chain, **how):
    return chain.build(same_shape_as("x"), **how)


def test_a_chain_of_calls_builds_the_proto(swish):
    assert swish.op_type == swish.proto.type == "acme.swish"
    assert swish.proto.inputs == (VarProto("x", "any shape, float"),)
    assert swish.proto.outputs == (VarProto("out", "shape and dtype of x", same_as="x"),)
    beta = AttrProto("beta", "steepness", AttrType.FLOAT, 1.0, min=0.0, min_exclusive=True)
    assert swish.proto.attrs == (beta,)
    assert swish.proto.version == 1


def test_every_constraint_of_a_slot_is_in_the_proto():
    proto = build(
        maker()
        .add_input("many", "a list")
        .as_duplicable()
        .as_optional()
        .dtypes("int32", "int64")
        .add_input("like", "a shape")
        .as_shape_only()
        .add_output("x_out", "x, updated")
        .aliases("x")
        .same_dtype_as("x")
        .add_output("mask", "for the gradient")
        .as_intermediate()
        .dtypes("bool")
        .dispatch_on("like")
        .dynamic_output()
    ).proto
    many, like = proto.input("many"), proto.input("like")
    assert (many.duplicable, many.optional, many.dtypes) == (True, True, ("int32", "int64"))
    assert like.shape_only
    assert proto.output("x_out").aliases == "x"
    assert proto.output("mask").intermediate
    assert (proto.dispatch, proto.dispatch_slot, proto.dynamic_output) == ("like", "like", True)


@pytest.mark.parametrize(
    ("type", "attr_type"),
    [
        (int, AttrType.INT),
        (float, AttrType.FLOAT),
        (str, AttrType.STRING),
        (bool, AttrType.BOOL),
        (list[int], AttrType.INTS),
        (list[float], AttrType.FLOATS),
        (list[str], AttrType.STRINGS),
        (list[bool], AttrType.BOOLS),
        (BLOCK, AttrType.BLOCK),
    ],
)
def test_python_types_determine_attribute_types(type, attr_type):
    assert build(maker().add_attr("a", type, "c")).proto.attr("a").type is attr_type


def test_every_constraint_of_an_attribute_is_in_the_proto():
    proto = build(
        maker()
        .add_attr("a", float, "c")
        .default(1)
        .between(0, 2)
        .add_attr("b", int, "c")
        .required()
        .greater_than(0)
        .less_than(5)
        .add_attr("c", list[int], "c")
        .default([1, 2])
        .at_least(0)
        .at_most(9)
        .add_attr("d", str, "c")
        .one_of("x", "y")
        .add_attr("e", str, "c")
        .as_dtype()
        .add_attr("f", str, "c")
        .as_dtype("int32", "int64")
        .default("int64")
    ).proto
    a, b, c = (proto.attr(name) for name in "abc")
    assert (a.default, a.min, a.max, a.min_exclusive, a.max_exclusive) == (
        1.0,
        0.0,
        2.0,
        False,
        False,
    )
    assert type(a.default) is type(a.min) is float
    assert (b.required, b.min, b.max, b.min_exclusive, b.max_exclusive) == (True, 0, 5, True, True)
    assert (c.default, c.min, c.max) == ((1, 2), 0, 9)
    assert proto.attr("d").allowed == ("x", "y")
    assert proto.attr("e").allowed == DTYPES
    assert proto.attr("f").allowed == ("int32", "int64")
    assert proto.attr("e").is_dtype
    assert proto.attr("f").default == "int64"


def test_a_range_can_contain_a_single_value():
    assert build(maker().add_attr("a", int, "c").between(2, 2)).proto.attr("a").max == 2


def test_a_definition_is_immutable(swish):
    for thing, name in (
        (swish.proto, "type"),
        (swish.proto.inputs[0], "name"),
        (swish.proto.attrs[0], "default"),
    ):
        with pytest.raises(AttributeError, match=r"cannot assign|can't set"):
            setattr(thing, name, "other")


def test_a_definition_does_not_have_a_dict(swish):
    for thing in (swish, swish.proto, swish.proto.inputs[0], swish.proto.attrs[0]):
        assert not hasattr(thing, "__dict__")


def test_protos_are_compared_by_value(swish):
    assert pickle.loads(pickle.dumps(swish.proto)) == swish.proto
    assert copy.deepcopy(swish.proto) == swish.proto
    assert hash(copy.deepcopy(swish.proto)) == hash(swish.proto)
    newer = OpMaker("acme.swish", version=2).add_comment("x").add_output("out", "y")
    assert swish.proto not in {newer, swish.proto.inputs, None}


def test_slots_are_looked_up_by_name_and_errors_suggest_the_nearest(swish):
    assert swish.proto.input("x").name == "x"
    assert list(swish.proto.output_slots) == ["out"]
    with pytest.raises(
        SlotError, match=r"acme.swish: unknown output, got 'outs'; did you mean 'out'"
    ):
        swish.proto.output("outs")
    with pytest.raises(SlotError, match=r"acme.swish: unknown input, got 'zzz'; inputs are 'x'"):
        swish.proto.input("zzz")
    with pytest.raises(
        AttributeValueError, match=r"unknown attribute, got 'bet'; did you mean 'bet"
    ):
        swish.proto.attr("bet")


def test_an_operator_without_a_comment_is_refused():
    with pytest.raises(RegistrationError, match=r"op: add_comment must say what the operator"):
        build(OpMaker("op").add_input("x", "c").add_output("out", "c").same_dtype_as("x"))


def test_an_operator_without_a_dispatch_dtype_is_refused():
    creation = OpMaker("op").add_comment("c").add_output("out", "c").dtypes("float32")
    with pytest.raises(RegistrationError, match=r"op: an operator must have a required input or a"):
        creation.build(lambda ctx: None)


def test_operator_versions_start_at_1():
    chain = OpMaker("op", version=0).add_comment("c").add_input("x", "c")
    with pytest.raises(RegistrationError, match=r"op: version must be at least 1, got 0"):
        chain.build(same_shape_as("x"))


@pytest.mark.parametrize(
    ("dispatch", "chain"),
    [
        ("x", maker()),
        ("y", OpMaker("op").add_comment("c").add_input("a", "c").as_optional().add_input("y", "c")),
        ("kind", OpMaker("op").add_comment("c").add_attr("kind", str, "c").as_dtype().required()),
    ],
)
def test_the_first_required_input_or_a_dtype_attribute_selects_the_kernel(dispatch, chain):
    assert chain.build(lambda ctx: None).proto.dispatch_slot == dispatch


def test_arguments_that_must_be_functions_are_checked():
    with pytest.raises(
        RegistrationError, match=r"acme.op: infer_shape must be a function, got None"
    ):
        maker().build(None)
    for word in ("gradient", "body", "upgrade"):
        with pytest.raises(RegistrationError, match=f"acme.op: {word} must be a function, got 3"):
            build(maker(), **{word: 3})


def test_declaring_no_gradient_requires_a_reason():
    assert build(maker(), gradient=no_gradient("a comparison")).gradient == NoGradient(
        "a comparison"
    )
    with pytest.raises(RegistrationError, match=r"acme.op: no_gradient must give a reason"):
        build(maker(), gradient=no_gradient(" "))


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (grad_op("acme.other"), "its gradient operator must be 'acme.op_grad', got 'acme.other'"),
        (
            grad_op("acme.op_grad", needs=["outs"]),
            "needs must name slots, got 'outs'; did you mean",
        ),
        (grad_op("acme.op_grad", also=["x"]), "grad_op's also must name slots, got 'x'"),
        (grad_op("acme.op_grad", no_grad=["out"]), "grad_op's no_grad must name slots, got 'out'"),
        (grad_op("acme.op_grad", no_grad=["x"]), "grad_op needs an input that can have a gradient"),
    ],
)
def test_a_grad_op_that_does_not_match_its_operator_is_refused(rule, message):
    with pytest.raises(RegistrationError, match=f"acme.op: .*{re.escape(message)}"):
        build(maker(), gradient=rule)


def random_maker(**left_out):
    chain = maker()
    if "seed" not in left_out:
        chain.add_attr("seed", int, "c").default(left_out.get("seed_default", 0))
    if "stream" not in left_out:
        chain.add_attr("stream", int, "c")
        if "stream_default" in left_out:
            chain.default(0)
    if "step" not in left_out:
        chain.add_input("step", "c").dtypes(left_out.get("step_dtype", "int64"))
        if "step_required" not in left_out:
            chain.as_optional()
    return chain


def test_random_operators_have_seed_stream_and_step():
    assert build(random_maker(), random=True).random


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"seed": 1}, "an int attribute 'seed' of default 0, got None"),
        ({"seed_default": 1}, "an int attribute 'seed' of default 0"),
        ({"stream": 1}, "an int attribute 'stream' that may be absent"),
        ({"stream_default": 1}, "an int attribute 'stream' that may be absent"),
        ({"step": 1}, "an optional input 'step' of dtype int64"),
        ({"step_dtype": "int32"}, "an optional input 'step' of dtype int64"),
        ({"step_required": 1}, "an optional input 'step' of dtype int64"),
    ],
)
def test_random_operators_need_seed_stream_and_step(how, message):
    with pytest.raises(RegistrationError, match=f"acme.op: random=True needs {message}"):
        build(random_maker(**how), random=True)


def cond_maker():
    chain = OpMaker("cond").add_comment("c").add_input("condition", "c").dtypes("bool")
    chain.add_input("captured", "c").as_duplicable().as_optional()
    chain.add_output("outputs", "c").as_duplicable()
    chain.add_attr("then", BLOCK, "c").required().add_attr("then_names", list[str], "c").required()
    return chain.add_attr("other", BLOCK, "c").required().add_attr("other_names", list[str], "c")


BLOCKS = (("then", "then_names"), ("other", "other_names"))


def test_control_flow_refers_to_its_slots_and_attributes_by_name():
    branch = Branch("condition", "captured", "outputs", BLOCKS)
    assert cond_maker().build(lambda ctx: None, control=branch).control == branch


@pytest.mark.parametrize(
    ("control", "message"),
    [
        (
            Branch("cond", "captured", "outputs", BLOCKS),
            (
                "condition of its control flow must name a slot that takes a variable, got 'cond'; "
                "did you mean 'condition'?"
            ),
        ),
        (
            Branch("condition", "condition", "outputs", BLOCKS),
            "captured of its control flow must name a slot that takes a list, got 'condition'",
        ),
        (Branch("condition", "captured", "outputs", BLOCKS[:1]), "must have two blocks, got 1"),
        (
            Branch("condition", "captured", "outputs", (BLOCKS[0], ("then_names", "then"))),
            "control flow needs an attribute of block, got list[str] 'then_names'",
        ),
        (
            Loop("condition", "captured", "captured", "outputs", "then", "a", "b", "c"),
            "control flow needs an attribute of str, got no attribute 'c'",
        ),
    ],
)
def test_control_flow_with_missing_slots_or_attributes_is_refused(control, message):
    with pytest.raises(RegistrationError, match=f"^cond: .*{re.escape(message)}"):
        cond_maker().build(lambda ctx: None, control=control)


def test_counting_outputs_requires_exactly_one_output_list():
    with pytest.raises(
        RegistrationError, match=r"acme.op: count_outputs needs one required duplica"
    ):
        build(maker(), count_outputs=lambda ctx: 1)


def test_a_former_name_is_accepted_with_a_warning():
    chain = maker("toy.stretch").add_attr("factor", float, "how much").default(1.0)
    definition = build(chain.deprecated("scale", "factor").deprecated("data", "x"))
    context, package = Context.discover(), Package("toy", "opwright-toy", "1.0")
    context.ops.add("toy.stretch", definition, package)
    context.kernels.add(
        "toy.stretch",
        device="cpu",
        dtypes=["float64"],
        kernel=lambda x, out, *, factor: np.multiply(x, factor, out=out),
        library="toy",
        package=package,
    )
    block, x = Program().global_block(), np.ones(2)
    block.create_var("x", [2])
    with context_guard(context):
        stretch = ops.toy.stretch
        with pytest.warns(DeprecationWarning, match="'scale' is deprecated; write 'factor'"):
            assert stretch(x, scale=3.0).tolist() == [3, 3]
        with pytest.warns(DeprecationWarning, match="'data' is deprecated; write 'x'") as caught:
            assert stretch(data=x, factor=3.0).tolist() == [3, 3]
        with pytest.warns(DeprecationWarning, match="'scale' is deprecated"):
            block.append_op("toy.stretch", {"x": "x"}, attrs={"scale": 3.0})
        with pytest.raises(SlotError, match="'factor' must be given once, got it also under"):
            stretch(x, factor=2.0, scale=3.0)
    assert caught[0].filename == __file__
    assert block.ops[0].attrs == {"factor": 3.0}


@pytest.mark.parametrize(("old", "new"), [("x", "out"), ("data", "y")])
def test_a_former_name_must_be_unused_and_the_new_name_must_exist(old, new):
    with pytest.raises(RegistrationError, match=f"a slot or attribute, got '{old}' and '{new}'"):
        build(maker().deprecated(old, new))
