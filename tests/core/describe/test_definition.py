"""OpDefinition counts slots, checks dtypes, and infers a meta for every output."""

from __future__ import annotations

import re

import numpy as np
import pytest

from opwright.errors import (
    AttributeValueError,
    DtypeError,
    OpwrightError,
    ShapeError,
    SlotError,
)
from opwright.op import BLOCK, Meta, OpMaker, can_be_float, same_shape_as

F32, F64, I64 = Meta((2, 3), "float32"), Meta((2, 3), "float64"), Meta((2,), "int64")


def define(infer_shape, *, out="x", **how):
    chain = OpMaker("op").add_comment("c").add_input("x", "c").add_output("out", "c")
    if out:
        chain.same_dtype_as(out)
    chain.add_attr("axis", int, "c").add_attr("body", BLOCK, "c")
    return chain.build(infer_shape, **how)


def test_shapes_and_dtypes_are_inferred_from_inputs(add):
    metas = (Meta((-1, 3), "float32"),), (Meta((3,), "float32"),)
    assert add.infer(metas, {}, (1,)) == ((Meta((-1, 3), "float32"),),)


@pytest.mark.parametrize(
    "rule",
    [
        lambda ctx: ctx.set_output("out", [np.int64(2), np.int32(-1)]),
        lambda ctx: ctx.set_metas("out", [Meta([np.int64(2), np.int32(-1)], "float32")]),
    ],
    ids=["set_output", "set_metas"],
)
def test_infer_returns_plain_python_values(rule):
    ((meta,),) = define(rule).infer(((F32,),), {}, (1,))
    assert meta == Meta((2, -1), "float32")
    assert type(meta.shape) is tuple
    assert {type(dim) for dim in meta.shape} == {int}


def many_maker():
    return (
        OpMaker("op")
        .add_comment("c")
        .add_input("x", "c")
        .as_duplicable()
        .same_dtype_as("x")
        .add_input("weight", "c")
        .as_optional()
        .same_dtype_as("x")
        .add_input("index", "c")
        .as_optional()
        .dtypes("int32", "int64")
        .add_output("out", "c")
        .as_duplicable()
        .same_dtype_as("x")
        .add_output("mask", "c")
        .as_optional()
        .dtypes("bool")
    )


def test_absent_slots_have_no_metas_and_lists_have_one_per_variable():
    def infer_shape(ctx):
        assert not ctx.has_input("weight")
        assert ctx.inputs("weight") == []
        assert ctx.inputs("x") == [F32, F32]
        assert ctx.input("x") == F32
        assert ctx.output_count("out") == 3
        assert not ctx.has_output("mask")
        assert list(ctx.output_slots) == ["out", "mask"]
        ctx.set_outputs("out", [(1,), (2,), (3,)])
        ctx.set_output("mask", (9,))  # has no effect because mask is absent, like the next line
        ctx.set_outputs("mask", [(9,)])
        ctx.set_metas("mask", [I64])

    out, mask = many_maker().build(infer_shape).infer(((F32, F32), (), ()), {}, (3, 0))
    assert [meta.shape for meta in out] == [(1,), (2,), (3,)]
    assert mask == ()


def test_a_slot_with_only_one_allowed_dtype_determines_the_output_dtype():
    def infer_shape(ctx):
        ctx.set_outputs("out", [(1,)])
        ctx.set_output("mask", (1,))

    out, mask = many_maker().build(infer_shape).infer(((F64,), (), ()), {}, (1, 1))
    assert (out[0].dtype, mask[0].dtype) == ("float64", "bool")


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (
            ((F32,), (F64,), ()),
            "op: weight must have the dtype of x, float32, got float64; cast one of them",
        ),
        (
            ((F32, F64), (), ()),
            "op: x must have the dtype of x, float32, got float64; cast one of them",
        ),
        (((F32,), (), (F32,)), "op: index must be int32 or int64, got float32"),
    ],
)
def test_dtypes_are_checked_before_shapes(inputs, message):
    def infer_shape(ctx):
        raise AssertionError("must not be called")

    with pytest.raises(DtypeError, match=re.escape(message)):
        many_maker().build(infer_shape).infer(inputs, {}, (1, 0))


def fill_maker(**how):
    chain = OpMaker("fill").add_comment("c").add_attr("dtype", str, "c").as_dtype()
    chain = chain.default("float32") if how.get("default") else chain.required()
    return chain.add_output("out", "c").same_dtype_as("dtype")


def test_a_dtype_attribute_determines_the_dtype_and_the_kernel():
    definition = fill_maker(default=True).build(lambda ctx: ctx.set_output("out", ()))
    attrs = definition.proto.fill_attrs({})
    assert definition.infer((), attrs, (1,)) == ((Meta((), "float32"),),)
    assert definition.dispatch_dtype((), attrs) == "float32"
    assert definition.dispatch_dtype((), {"dtype": "int8"}) == "int8"


def test_an_input_can_have_the_dtype_of_an_attribute():
    chain = fill_maker().add_input("value", "c").as_optional().same_dtype_as("dtype")
    definition = chain.build(lambda ctx: ctx.set_output("out", ()))
    with pytest.raises(
        DtypeError, match=r"fill: value must have the dtype of dtype, int8, got float32"
    ):
        definition.infer(((F32,),), {"dtype": "int8"}, (1,))


def test_the_first_required_input_determines_the_dispatch_dtype(add):
    assert add.dispatch_dtype(((F64,), (F64,)), {}) == "float64"
    with pytest.raises(DtypeError, match=r"add: 'x' must be given to select the kernel, got none"):
        add.dispatch_dtype(((), (F64,)), {})


def test_the_first_variable_of_a_list_determines_the_dtype():
    chain = OpMaker("op").add_comment("c").add_input("x", "c").as_duplicable()
    chain.add_output("out", "c").same_dtype_as("x")
    definition = chain.build(same_shape_as("x"))
    inputs = ((F64, F32),)
    assert definition.dispatch_dtype(inputs, {}) == "float64"
    assert definition.infer(inputs, {}, (1,)) == ((F64,),)


def test_only_dtypes_are_inferred_if_ranks_are_unknown():
    definition = many_maker().build(lambda ctx: None)
    metas = ((F64,), (), ())
    assert definition.infer_dtypes(metas, {}, (1, 1)) == ("float64", "bool")
    assert definition.infer_dtypes(metas, {}, (1, 0)) == ("float64", None)
    assert define(lambda ctx: None, out=None).infer_dtypes(((F32,),), {}, (1,)) == (None,)
    with pytest.raises(DtypeError, match=r"op: index must be int32 or int64, got float32"):
        definition.infer_dtypes(((F64,), (), (F32,)), {}, (1, 0))


@pytest.mark.parametrize(
    ("infer_shape", "error", "message"),
    [
        (
            lambda ctx: None,
            ShapeError,
            "infer_shape must set output 'out', got nothing; call ctx.set",
        ),
        (
            lambda ctx: ctx.set_output("out", (-2,)),
            ShapeError,
            "output 'out' must have dimensions in [0, 2**63), got [-2]",
        ),
        (
            lambda ctx: ctx.set_outputs("out", [(1,), (2,)]),
            ShapeError,
            "output 'out' takes 1 variable(s), got 2 shape(s)",
        ),
        (
            lambda ctx: ctx.set_output("outs", ()),
            SlotError,
            "infer_shape sets an unknown output, got 'outs'; did you mean 'out'?",
        ),
        (
            lambda ctx: ctx.input("xx"),
            SlotError,
            "infer_shape asks for an unknown input, got 'xx'; did you mean 'x'?",
        ),
        (
            lambda ctx: ctx.set_outputs("outs", []),
            SlotError,
            "infer_shape sets an unknown output, got 'outs'; did you mean 'out'?",
        ),
        (
            lambda ctx: ctx.set_metas("outs", []),
            SlotError,
            "infer_shape sets an unknown output, got 'outs'; did you mean 'out'?",
        ),
        (
            lambda ctx: ctx.set_metas("out", [F32, F32]),
            ShapeError,
            "output 'out' takes 1 variable(s), got 2 shape(s)",
        ),
        (
            lambda ctx: ctx.set_metas("out", [Meta((), "float")]),
            DtypeError,
            "unknown dtype, got 'float'",
        ),
        (
            lambda ctx: ctx.output_count("outs"),
            SlotError,
            "infer_shape sets an unknown output, got 'outs'; did you mean 'out'?",
        ),
        (
            lambda ctx: ctx.inputs("y"),
            SlotError,
            "infer_shape asks for an unknown input, got 'y'; inputs are 'x'",
        ),
        (
            lambda ctx: ctx.has_input("y"),
            SlotError,
            "infer_shape asks for an unknown input, got 'y'; inputs are 'x'",
        ),
        (
            lambda ctx: ctx.attr("axes"),
            AttributeValueError,
            "infer_shape asks for an unknown attribute, got 'axes'; did you mean 'axis'?",
        ),
        (
            lambda ctx: ctx.set_output("out", (), "float"),
            DtypeError,
            "output 'out': unknown dtype, got 'float'; did you mean 'float",
        ),
        (lambda ctx: ctx.require(False, "no way"), ShapeError, "no way"),
        (
            lambda ctx: ctx.set_output("out", (ctx.input("x").shape[5],)),
            ShapeError,
            (
                "infer_shape must accept the inputs or give a reason, "
                "got IndexError: tuple index out of range, for x float32[2, 3]"
            ),
        ),
        (
            lambda ctx: ctx.block_metas("body", ["a"]),
            ShapeError,
            "the block 'body' must be part of a program",
        ),
    ],
)
def test_shape_inference_errors_begin_with_the_operator(infer_shape, error, message):
    with pytest.raises(error, match=f"^op: {re.escape(message)}"):
        define(infer_shape).infer(((F32,),), {"body": 1}, (1,))


def test_an_absent_input_is_checked_first():
    definition = many_maker().build(lambda ctx: ctx.input("weight"))
    with pytest.raises(
        SlotError, match=r"op: input 'weight' is absent, got no variable; check has_inp"
    ):
        definition.infer(((F32,), (), ()), {}, (1, 0))


def test_infer_shape_must_set_a_dtype_that_the_op_proto_does_not_determine():
    definition = define(lambda ctx: ctx.set_output("out", ()), out=None)
    with pytest.raises(
        DtypeError, match=r"op: infer_shape must give output 'out' a dtype, got none"
    ):
        definition.infer(((F32,),), {}, (1,))


def test_infer_shape_receives_none_for_absent_attributes():
    seen = []
    definition = define(lambda ctx: seen.append(ctx.attr("axis")) or ctx.set_output("out", ()))
    definition.infer(((F32,),), {}, (1,))
    definition.infer(((F32,),), {"axis": 2}, (1,))
    assert seen == [None, 2]


def test_infer_shape_can_read_the_metas_of_block_variables():
    definition = define(lambda ctx: ctx.set_metas("out", ctx.block_metas("body", ["a"])))
    blocks = {(3, "a"): I64}
    ((meta,),) = definition.infer(
        ((F32,),), {"body": 3}, (1,), lambda index, names: [blocks[index, name] for name in names]
    )
    assert meta == I64


def test_keyboard_interrupts_are_not_caught():
    def infer_shape(ctx):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        define(infer_shape).infer(((F32,),), {}, (1,))


def sgd_maker():
    chain = OpMaker("sgd").add_comment("c").add_input("param", "c").add_input("grad", "c")
    return chain.add_output("param_out", "c").same_dtype_as("param").aliases("param")


SGD = sgd_maker().build(same_shape_as("param"))
MANY = many_maker().build(lambda ctx: None)


@pytest.mark.parametrize(
    ("definition", "inputs", "outputs"),
    [
        (SGD, {"param": ["w"], "grad": ["g"]}, {"param_out": ["w"]}),
        (MANY, {"x": ["a", "b"]}, {"out": ["c"]}),
        (MANY, {"x": ["a"], "weight": [], "index": ["i"]}, {"out": ["c", "d"], "mask": ["m"]}),
    ],
)
def test_valid_slots_are_accepted(definition, inputs, outputs):
    definition.check_slots(inputs, outputs)


@pytest.mark.parametrize(
    ("definition", "inputs", "outputs", "message"),
    [
        (MANY, {}, {"out": ["c"]}, "op: input 'x' is required, got none; give x="),
        (MANY, {"x": []}, {"out": ["c"]}, "op: input 'x' is required, got none"),
        (MANY, {"x": ["a"]}, {}, "op: output 'out' is required, got none"),
        (
            MANY,
            {"x": ["a"], "weight": ["b", "c"]},
            {"out": ["c"]},
            "op: input 'weight' takes one variable, got 2; give only one",
        ),
        (
            MANY,
            {"x": ["a"], "weigth": ["b"]},
            {"out": ["c"]},
            "op: unknown input, got 'weigth'; did you mean 'weight'?",
        ),
        (
            MANY,
            {"x": ["a"]},
            {"outs": ["c"]},
            "op: unknown output, got 'outs'; did you mean 'out'?",
        ),
        (
            SGD,
            {"param": ["w"], "grad": ["g"]},
            {"param_out": ["v"]},
            (
                "sgd: output 'param_out' must be the variable of input 'param', got ['v'] and "
                "['w']; give both slots the same variable"
            ),
        ),
    ],
)
def test_invalid_slots_are_refused(definition, inputs, outputs, message):
    with pytest.raises(SlotError, match=f"^{re.escape(message)}"):
        definition.check_slots(inputs, outputs)


def test_count_outputs_determines_the_number_of_unnamed_outputs():
    split = many_maker().build(lambda ctx: None, count_outputs=lambda ctx: len(ctx.inputs("x")) + 1)
    assert split.output_counts(((F32, F32), (), ()), {}) == (3, 0)
    with pytest.raises(SlotError, match=r"op: the number of 'out' must be given, got no names"):
        MANY.output_counts(((F32,), (), ()), {})


def test_every_error_is_an_opwright_error():
    with pytest.raises(OpwrightError, match=r"op: "):
        define(lambda ctx: 1 / 0).infer(((F32,),), {}, (1,))


def test_one_shape_for_a_list_of_outputs_is_refused():
    definition = many_maker().build(lambda ctx: ctx.set_output("out", (1,)))
    with pytest.raises(ShapeError, match=r"op: output 'out' takes 2 variable\(s\), got 1 shape"):
        definition.infer(((F32,), (), ()), {}, (2, 0))


def test_can_be_float_follows_the_source_of_the_dtype():
    chain = OpMaker("op").add_comment("c").add_input("x", "c").dtypes("int8")
    chain.add_attr("kind", str, "c").as_dtype("int8", "float32").required()
    chain.add_attr("index", str, "c").as_dtype("int32", "int64").required()
    chain.add_output("a", "c").same_dtype_as("x").add_output("b", "c").same_dtype_as("kind")
    chain.add_output("c", "c").same_dtype_as("index").add_output("d", "c")
    chain.add_input("e", "c").as_duplicable().same_dtype_as("e")
    proto = chain.build(lambda ctx: None).proto
    slots = (*proto.inputs, *proto.outputs)
    assert [slot.name for slot in slots if can_be_float(proto, slot)] == ["e", "b", "d"]


def test_the_repr_of_a_definition_is_its_type(add):
    assert repr(add) == "OpDefinition('add')"
