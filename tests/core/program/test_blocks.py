"""Blocks contain variables by name; appending an operator checks it and infers its outputs."""

from __future__ import annotations

import numpy as np
import pytest

from opwright import Parameter, Program
from opwright.errors import (
    AttributeTypeError,
    AttributeValueError,
    DtypeError,
    OperatorNotFoundError,
    ProgramError,
    ShapeError,
    SlotError,
    VariableNotFoundError,
)
from opwright.op import OpMaker, same_shape_as


@pytest.fixture
def block():
    made = Program().global_block()
    made.create_var("x", [None, 4], is_data=True)
    return made


def test_an_output_without_a_shape_has_the_inferred_shape(block):
    block.create_parameter("w", [4, 3])
    block.append_op("matmul", {"x": "x", "y": "w"}, {"out": "h"})
    assert block.var("h").shape == (-1, 3)
    assert block.var("h").dtype == "float32"


def test_an_output_created_without_a_shape_has_the_inferred_shape_and_dtype(block):
    out = block.create_var("index")
    block.append_op("argmax", {"x": "x"}, {"out": out})
    assert (out.shape, out.dtype) == ((-1,), "int64")


def test_slots_accept_variables_names_and_lists(block):
    x = block.var("x")
    op = block.append_op("add_n", {"x": [x, "x"]})
    assert op.input("x") == ("x", "x")
    assert block.append_op("add_n", {"x": x}).input("x") == ("x",)


def test_missing_outputs_get_fresh_names_derived_from_the_type(block):
    op = block.append_op("dropout", {"x": "x"})
    assert op.output("out") == ("dropout_0",)
    assert op.output("mask") == ("dropout_0/mask",)
    assert block.append_op("dropout", {"x": "x"}, {"out": "h"}).output("mask") == ("h/mask",)


def test_an_aliased_output_is_the_variable_of_its_input(block):
    block.create_parameter("w", [3])
    for name, shape in (("g", [3]), ("lr", [1])):
        block.create_var(name, shape)
    inputs = {"param": "w", "grad": "g", "learning_rate": "lr"}
    assert block.append_op("sgd", inputs).output("param_out") == ("w",)
    with pytest.raises(SlotError, match="'param_out' must be the variable of input 'param'"):
        block.append_op("sgd", inputs, {"param_out": "other"})


def test_attributes_are_plain_python_values_and_include_defaults(block):
    op = block.append_op("scale", {"x": "x"}, attrs={"scale": np.float32(2)})
    assert op.attrs == {"scale": 2.0}
    assert type(op.attr("scale")) is float
    assert block.append_op("scale", {"x": "x"}).attrs == {"scale": 1.0}


def test_absent_slots_are_empty_and_unknown_slots_raise(block):
    op = block.append_op("dropout", {"x": "x", "step": None})
    assert op.input("step") == ()
    with pytest.raises(SlotError, match=r"unknown input, got 'stap'; did you mean 'step'\?"):
        op.input("stap")
    with pytest.raises(SlotError, match="unknown output, got 'outt'"):
        op.output("outt")
    with pytest.raises(AttributeValueError, match="unknown attribute, got 'sed'"):
        op.attr("sed")


@pytest.mark.parametrize(
    ("type", "inputs", "attrs", "error", "message"),
    [
        ("matmull", {"x": "x"}, {}, OperatorNotFoundError, "did you mean 'matmul'"),
        ("scale", {"z": "x", "x": "x"}, {}, SlotError, "scale: unknown input, got 'z'"),
        ("add", {"x": "x"}, {}, SlotError, "add: input 'y' is required"),
        ("scale", {"x": ["x", "x"]}, {}, SlotError, "'x' takes one variable, got 2"),
        ("scale", {"x": 3}, {}, SlotError, "x must be a Variable, a name, or a list"),
        ("scale", {"x": "y"}, {}, VariableNotFoundError, "scale: x: no such variable, got 'y'"),
        ("scale", {"x": "x"}, {"scal": 1}, AttributeValueError, "did you mean 'scale'"),
        ("scale", {"x": "x"}, {"scale": "2"}, AttributeTypeError, "scale must be a float"),
        ("scale", {"x": "x"}, {"scale": True}, AttributeTypeError, "got scale=True"),
        ("dropout", {"x": "x"}, {"probability": 2.0}, AttributeValueError, r"in \[0, 1\]"),
        ("cast", {"x": "x"}, {}, AttributeValueError, "'dtype' is required"),
        ("matmul", {"x": "x", "y": "x"}, {}, ShapeError, "do not fit"),
    ],
)
def test_the_error_describes_a_mismatch(block, type, inputs, attrs, error, message):
    block.create_var("w", [3, 3])
    if type == "matmul":
        inputs = {"x": "x", "y": "w"}
    with pytest.raises(error, match=message):
        block.append_op(type, inputs, attrs=attrs)


def test_a_refused_operator_leaves_the_block_unchanged(block):
    block.create_var("i", [3], "int64")
    block.create_var("short", [2])
    generation, names = block.generation, list(block.vars)
    with pytest.raises(DtypeError, match="y must have the dtype of x"):
        block.append_op("add", {"x": "x", "y": "i"}, {"out": "sum"})
    with pytest.raises(ShapeError, match="'short', float32\\[2\\]\\) exists with another"):
        block.append_op("scale", {"x": "x"}, {"out": "short"})
    assert (block.generation, list(block.vars), block.ops) == (generation, names, [])


def test_redeclaring_a_name_with_a_different_shape_or_dtype_raises(block):
    with pytest.raises(ShapeError, match=r"'x', float32\[\?, 4\]\) exists with another shape"):
        block.create_var("x", [4])
    with pytest.raises(DtypeError, match="exists with another dtype, got int64"):
        block.create_var("x", [None, 4], "int64")
    block.append_op("scale", {"x": "x"}, {"out": "h"})
    with pytest.raises(DtypeError, match="out is int64, but Variable\\('h'"):
        block.append_op("argmax", {"x": "x"}, {"out": "h"})


def test_declaring_an_equal_variable_returns_it(block):
    w = block.create_parameter("w", [4, 3])
    assert block.create_parameter("w", [4, 3]) is w
    with pytest.raises(ProgramError, match="exists and is not persistable"):
        block.create_var("x", [None, 4], persistable=True)
    with pytest.raises(ProgramError, match="exists and is not a parameter"):
        block.create_parameter("x", [None, 4])


def test_an_operator_can_overwrite_a_variable_of_compatible_shape(block):
    block.append_op("scale", {"x": "x"}, {"out": "h"})
    block.append_op("relu", {"x": "h"}, {"out": "h"})
    assert block.var("h").shape == (-1, 4)


def test_the_error_for_an_unknown_name_suggests_the_nearest(block):
    block.create_var("hidden", [1])
    with pytest.raises(VariableNotFoundError, match="block 0: no such variable, got 'hiden'; did"):
        block.var("hiden")
    assert block.find_var("hiden") is None


def test_variables_of_another_program_are_refused(block):
    other = Program().global_block().create_var("x", [None, 4])
    with pytest.raises(ProgramError, match="of another program or block"):
        block.append_op("relu", {"x": other})
    with pytest.raises(ProgramError, match="of another program or block"):
        block.append_op("relu", {"x": "x"}, {"out": other})


def test_outputs_have_a_dtype_but_no_shape_if_an_input_rank_is_unknown(block):
    block.create_var("img")
    op = block.append_op("argmax", {"x": block.append_op("relu", {"x": "img"}).output("out")})
    (name,) = op.output("out")
    assert (block.var(name).shape, block.var(name).dtype) == (None, "int64")


def test_shapes_are_reinferred_once_they_are_known(block):
    img = block.create_var("img", is_data=True)
    block.append_op("matmul", {"x": "img", "y": block.create_parameter("w", [6, 3])}, {"out": "h"})
    block.append_op("relu", {"x": "h"}, {"out": "y"})
    img.shape = [None, 6]
    block.program.infer_shapes()
    assert block.var("y").shape == (-1, 3)
    img.shape = [None, 7]
    with pytest.raises(ShapeError, match="do not fit") as caught:
        block.program.infer_shapes()
    assert "operator 0 of block 0: h = matmul(img, w)" in caught.value.__notes__[0]


def test_prepended_operators_come_first(block):
    block.append_op("relu", {"x": "x"}, {"out": "h"})
    block.prepend_op("square", {"x": "x"}, {"out": "s"})
    assert [op.type for op in block.ops] == ["square", "relu"]


def test_parameters_are_in_the_global_block(block):
    program = block.program
    body = program.create_block()
    w = body.create_parameter("w", [3], trainable=False, initializer="xavier")
    assert isinstance(w, Parameter)
    assert (w.block, w.persistable, w.trainable) == (program.global_block(), True, False)
    assert w.initializer == "xavier"
    assert program.parameters() == [w]
    assert body.create_global_var("g", [1]).block is program.global_block()


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ([2, -2], "at least 0, or -1"),
        ([True], "must be an int, got True"),
        (["a"], "sequence of ints"),
    ],
)
def test_dimensions_must_be_ints(block, shape, message):
    with pytest.raises(ShapeError, match=message):
        block.create_var("v", shape)


@pytest.mark.parametrize("shape", [{2, 3}, frozenset([2]), {2: 1}], ids=str)
def test_sets_and_dicts_are_refused_as_shapes(block, shape):
    with pytest.raises(ShapeError, match="v: a shape must be a sequence of ints, got"):
        block.create_var("v", shape)


@pytest.mark.parametrize("flag", ["persistable", "stop_gradient", "is_data"])
@pytest.mark.parametrize("value", ["yes", 1, None], ids=str)
def test_a_flag_of_a_variable_must_be_a_bool(block, flag, value):
    with pytest.raises(
        AttributeTypeError, match=f"^v: {flag} must be True or False, got {value!r}"
    ):
        block.create_var("v", [1], **{flag: value})
    assert "v" not in block.vars


def test_a_flag_of_a_parameter_or_an_existing_variable_must_be_a_bool(block):
    for flag in ("trainable", "stop_gradient"):
        with pytest.raises(AttributeTypeError, match=f"^w: {flag} must be True or False, got 'no'"):
            block.create_parameter("w", [1], **{flag: "no"})
    x = block.var("x")
    with pytest.raises(AttributeTypeError, match="^x: persistable must be True or False, got 'no'"):
        x.persistable = "no"
    assert x.persistable is False


def test_the_error_for_a_mistyped_argument_suggests_the_right_name(block):
    with pytest.raises(AttributeTypeError, match="create_var: .* did you mean 'persistable'"):
        block.create_var("v", [1], persistible=True)


def test_an_output_whose_name_cannot_be_saved_is_refused(block):
    with pytest.raises(ProgramError, match=r"a name must be .* surrogates, got '\\ud800'; choose"):
        block.append_op("relu", {"x": "x"}, {"out": "\ud800"})
    assert block.ops == []
    assert list(block.vars) == ["x"]


@pytest.mark.parametrize("dtype", ["float3", "i4,", None, object()])
def test_dtypes_must_have_known_names(block, dtype):
    with pytest.raises(DtypeError, match="unknown dtype, got"):
        block.create_var("v", [1], dtype)


def test_slots_keep_the_order_of_the_operator(block, context, toy):
    maker = OpMaker("noise").add_comment("Made for one test.")
    maker.add_input("step", "int64 [1]").dtypes("int64").as_optional()
    maker.add_input("x", "any shape").add_output("out", "as x").same_dtype_as("x")
    maker.add_attr("seed", int, "0: the program's").default(0)
    maker.add_attr("stream", int, "which numbers")
    context.ops.add("noise", maker.build(same_shape_as("x"), random=True), toy.PACKAGE)
    assert list(block.append_op("noise", {"x": "x"}).inputs) == ["step", "x"]


def test_random_operators_receive_separate_streams_and_the_step(block):
    first = block.append_op("dropout", {"x": "x"})
    second = block.append_op("dropout", {"x": "x"})
    assert (first.attr("stream"), second.attr("stream")) == (0, 1)
    assert first.input("step") == ("@step",)
    step = block.var("@step")
    assert (step.shape, step.dtype, step.persistable) == ((1,), "int64", True)


def test_the_step_can_be_omitted_and_the_stream_given(block):
    op = block.append_op("dropout", {"x": "x", "step": None}, attrs={"stream": 7})
    assert op.input("step") == ()
    assert op.attr("stream") == 7
    assert block.append_op("dropout", {"x": "x"}).attr("stream") == 0


def test_every_change_increments_the_generation(block):
    program = block.program
    changes = [
        lambda: block.create_var("v", [1]),
        lambda: block.append_op("relu", {"x": "x"}, {"out": "h"}),
        lambda: block.prepend_op("relu", {"x": "x"}, {"out": "h"}),
        lambda: setattr(block.var("x"), "shape", [2, 4]),
        lambda: setattr(block.var("x"), "dtype", "float64"),
        lambda: setattr(block.var("v"), "persistable", True),
        lambda: setattr(program, "seed", 3),
        program.create_block,
    ]
    for change in changes:
        before = block.generation
        change()
        assert block.generation > before
