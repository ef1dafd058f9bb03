"""An operator described in C++ equals the same operator described in Python."""

from __future__ import annotations

import ctypes as c

import pytest
from plugin_host import Library

from opwright.framework_pb2 import OpProto as Message
from opwright.op import OpMaker, OpProto


@pytest.fixture(scope="module")
def features(compiler):
    return Library(compiler.build("features.cc"))


def python_everything():
    return (
        OpMaker("test.everything", version=3)
        .add_comment("Every word, and ä as UTF-8.")
        .add_input("x", "data").dtypes("float32", "float64")
        .add_input("list", "many").as_duplicable().same_dtype_as("list")
        .add_input("like", "shape").as_shape_only().as_optional()
        .add_output("out", "result").same_dtype_as("dtype")
        .add_output("list_out", "updated").as_duplicable().aliases("list").same_dtype_as("list")
        .add_output("saved", "for the gradient").as_intermediate().as_optional().dtypes("float32")
        .add_attr("count", int, "int").required().at_least(-3)
        .add_attr("small", int, "int").default(0).between(-1, 7)
        .add_attr("rate", float, "float").default(0.1).greater_than(0.0).less_than(1.5)
        .add_attr("exact", float, "float").default(0.0).at_most(1e300)
        .add_attr("flag", bool, "bool").default(False)
        .add_attr("mode", str, "str").default("fast").one_of("fast", "exact", "")
        .add_attr("dtype", str, "dtype").default("float32").as_dtype("float32", "int64")
        .add_attr("sizes", list[int], "ints").default([1, -2, 300]).at_least(-2)
        .add_attr("weights", list[float], "floats").default([0.1, 2.5])
        .add_attr("names", list[str], "strs").default(["a", ""])
        .add_attr("switches", list[bool], "bools").default([True, False])
        .add_attr("maybe", float, "may be absent").greater_than(0)
        .add_attr("maybe_sizes", list[int], "may be absent").one_of(1, 2)
        .add_attr("none", list[int], "empty").default([])
        .dispatch_on("x")
        .dynamic_output()
        .build(lambda ctx: None)
        .proto
    )  # fmt: skip


def test_the_description_equals_the_same_description_in_python(features):
    message = Message.FromString(features.proto_bytes("test.everything"))
    assert OpProto.from_proto(message) == python_everything()


def test_the_bytes_match_protobuf(features):
    expected = python_everything().to_proto().SerializeToString(deterministic=True)
    assert features.proto_bytes("test.everything") == expected


def test_the_table_contains_the_functions_and_the_description(features):
    row = features.ops["test.everything"]
    assert (row.flags, row.no_gradient_reason, row.gradient_type) == (1, b"it is a test", None)
    assert features.ops["test.unary"].flags == 0


MISTAKES = {
    "type": "test.Op: an operator type must be lower_snake, optionally with a prefix and a dot, "
    "got 'test.Op'; write it like 'acme.rms_norm'",
    "prefix": "a.b.op: an operator type must be lower_snake, optionally with a prefix and a dot, "
    "got 'a.b.op'; write it like 'acme.rms_norm'",
    "keyword type": "test.lambda: an operator type must not be a Python keyword, got 'test.lambda'",
    "no comment": "test.op: AddComment must say what the operator computes, got none",
    "second comment": "test.op: AddComment must be called once",
    "version": "test.op: version must be at least 1, got 0",
    "slot name": "test.op: the name of an input must be lower_snake, got '2x'",
    "keyword name": "test.op: the name of an attribute must not be a Python keyword, got 'lambda'",
    "taken name": "test.op: slots and attributes must have different names, got 'x' twice",
    "slot comment": "test.op: an input must have a comment, got none for 'y'",
    "dtypes": "test.op: the dtypes of 'y' must be canonical names, got 'float'",
    "same as": "test.op: SameDtypeAs of 'y' must name an input or a dtype attribute, got 'z'; "
    "known: 'x', 'y'",
    "same as itself": "test.op: SameDtypeAs of 'y' must name an input or a dtype attribute, "
    "got 'y'; known: 'x', 'y'",
    "same as twice": "test.op: SameDtypeAs of 'y' must be given once, got 'x' and 'x'",
    "shape only output": "test.op: AsShapeOnly is for inputs, got output 'y'",
    "intermediate input": "test.op: AsIntermediate is for outputs, got input 'y'",
    "aliases": "test.op: Aliases of 'y' must name an input, got 'z'; known: 'x'",
    "aliases a list": "test.op: output 'y' and the input that it aliases must both be duplicable "
    "or neither, and the input must not be shape-only, got 'x'",
    "aliases twice": "test.op: an input must be aliased by one output, got 'y' and 'z' for 'x'",
    "absent": "test.op: 'rate' may be absent, but its field always has a value; give it a "
    "Default, make it Required, or the field a std::optional",
    "required default": "test.op: 'rate' must be required or have a default, got both; remove "
    "one of them",
    "default range": "test.op: the default of 'rate' must be an allowed value: it must be in "
    "(0, inf), got -0.5",
    "default nan": "test.op: the default of 'rate' must be an allowed value: it must be in "
    "[0, 0.1], got nan",
    "default allowed": "test.op: the default of 'mode' must be an allowed value: it must be one of "
    "'fast', 'exact', got 'slow'",
    "default twice": "test.op: attribute 'count' must be given its default once, got 1 and 2",
    "empty range": "test.op: the range of 'count' must not be empty, got values in (2, 2]",
    "nan bound": "test.op: each bound of 'rate' must be a number, got nan",
    "range and allowed": "test.op: 'count' must have a range or allowed values, got both",
    "allowed twice": "test.op: values allowed for 'count' must differ, got 1 twice",
    "dtype name": "test.op: attribute 'dtype' must be a dtype's canonical name, got 'double'",
    "dispatch": "test.op: DispatchOn must name a required input, or a dtype attribute that is "
    "never absent, got 'out'; known: 'x'",
    "no dispatch": "test.op: an operator must have a required input or a dtype attribute, whose "
    "dtype selects the kernel, got neither; use AddAttr(&Attrs::dtype, \"dtype\", …).AsDtype()",
    "gradient type": "test.op: its gradient operator must be 'test.op_grad', got 'test.other'",
    "gradient needs": "test.op: Gradient's needs must name slots, got 'y'; known: 'x', 'out'",
    "gradient of ints": "test.op: Gradient requires an input of floats, got none; "
    "use NoGradient(reason)",
    "two gradients": "test.op: an operator must have a gradient or a reason for not having "
    "one, got both",
    "no reason": "test.op: NoGradient needs a reason, got none",
}  # fmt: skip


@pytest.fixture(scope="module")
def mistakes(compiler):
    return c.CDLL(str(compiler.build("mistakes.cc")))


def describe(mistakes, name):
    message = c.create_string_buffer(1024)
    code = mistakes.describe_mistake(name.encode(), message, c.c_uint64(len(message)))
    return code, message.value.decode()


@pytest.mark.parametrize("name", MISTAKES)
def test_the_error_names_a_broken_rule(mistakes, name):
    assert describe(mistakes, name) == (1, MISTAKES[name])


def test_a_description_without_mistakes_is_accepted(mistakes):
    assert describe(mistakes, "none") == (0, "")
