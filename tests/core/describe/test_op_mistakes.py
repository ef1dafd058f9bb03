"""OpMaker reports every mistake in a slot or an attribute, and names the slot or attribute."""

from __future__ import annotations

import math
import re

import pytest

from opwright.errors import RegistrationError
from opwright.op import OpMaker, same_shape_as


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


MISTAKES = {
    "name twice as inputs": (
        lambda m: m.add_input("x", "again"),
        "slots and attributes must have different names, got 'x' for an input and an input",
    ),
    "name as slot and attribute": (
        lambda m: m.add_attr("out", int, "c"),
        "slots and attributes must have different names, got 'out' for an output and an attribute",
    ),
    "keyword as slot": (
        lambda m: m.add_input("from", "c"),
        "the name of an input must not be a Python keyword, got 'from'",
    ),
    "keyword as attribute": (
        lambda m: m.add_attr("lambda", float, "c"),
        "the name of an attribute must not be a Python keyword, got 'lambda'",
    ),
    "capital letters": (
        lambda m: m.add_input("X", "c"),
        "the name of an input must be lower_snake, got 'X'",
    ),
    "input without comment": (
        lambda m: m.add_input("y", " "),
        "an input must have a comment, got none for 'y'",
    ),
    "output without comment": (
        lambda m: m.add_output("y", ""),
        "an output must have a comment, got none for 'y'",
    ),
    "attribute without comment": (
        lambda m: m.add_attr("y", int, ""),
        "an attribute must have a comment, got none for 'y'",
    ),
    "default above its range": (
        lambda m: m.add_attr("a", float, "c").default(2.0).at_most(1.0),
        "the default of 'a' must be an allowed value: a must be in (-inf, 1], got a=2.0",
    ),
    "default on an exclusive bound": (
        lambda m: m.add_attr("a", float, "c").default(0.0).greater_than(0.0),
        "the default of 'a' must be an allowed value: a must be in (0, inf), got a=0.0",
    ),
    "default element outside": (
        lambda m: m.add_attr("a", list[int], "c").default([1, 0]).at_least(1),
        "the default of 'a' must be an allowed value: every element of a must be in",
    ),
    "default not allowed": (
        lambda m: m.add_attr("a", str, "c").default("z").one_of("x", "y"),
        "the default of 'a' must be an allowed value: a must be one of 'x', 'y', got a='z'",
    ),
    "default of another type": (
        lambda m: m.add_attr("a", int, "c").default(1.5),
        "the default of 'a' must be an int, got 1.5",
    ),
    "default None": (
        lambda m: m.add_attr("a", int, "c").default(None),
        "the default of 'a' must be an int, got None",
    ),
    "default twice": (
        lambda m: m.add_attr("a", int, "c").default(1).default(2),
        "attribute 'a' must be given its default once, got 1 and 2",
    ),
    "required and default": (
        lambda m: m.add_attr("a", int, "c").default(1).required(),
        "'a' must be required or have a default, got both; remove one of them",
    ),
    "empty range": (
        lambda m: m.add_attr("a", int, "c").at_least(3).at_most(2),
        "the range of 'a' must not be empty, got [3, 2]",
    ),
    "open range of one point": (
        lambda m: m.add_attr("a", int, "c").at_least(2).less_than(2),
        "the range of 'a' must not be empty, got [2, 2)",
    ),
    "two lower bounds": (
        lambda m: m.add_attr("a", int, "c").at_least(3).greater_than(2),
        "attribute 'a' must be given its min once, got 3 and 2",
    ),
    "nan as bound": (
        lambda m: m.add_attr("a", float, "c").at_least(math.nan),
        "each bound of 'a' must be a float, got nan",
    ),
    "float bound of an int": (
        lambda m: m.add_attr("a", int, "c").at_least(0.5),
        "each bound of 'a' must be an int, got 0.5",
    ),
    "range of strings": (
        lambda m: m.add_attr("a", str, "c").greater_than(0),
        "greater_than is for int and float attributes, got 'a', str",
    ),
    "range of bools": (
        lambda m: m.add_attr("a", list[bool], "c").between(0, 1),
        "between is for int and float attributes, got 'a', list[bool]",
    ),
    "range and allowed": (
        lambda m: m.add_attr("a", int, "c").at_least(0).one_of(1, 2),
        "'a' must have a range or allowed values, got both",
    ),
    "allowed of another type": (
        lambda m: m.add_attr("a", str, "c").one_of("x", 1),
        "each value allowed for 'a' must be a str, got 1",
    ),
    "nothing allowed": (
        lambda m: m.add_attr("a", str, "c").one_of(),
        "one_of must list the values of 'a', got none",
    ),
    "allowed twice": (
        lambda m: m.add_attr("a", str, "c").one_of("x", "x"),
        "values allowed for 'a' must differ, got ['x', 'x']",
    ),
    "unknown attribute type": (
        lambda m: m.add_attr("a", dict, "c"),
        (
            "the type of attribute 'a' must be int, float, str, bool, a list of one of them "
            "such as list[int], or BLOCK, got <class 'dict'>"
        ),
    ),
    "dtype of an int attribute": (
        lambda m: m.add_attr("a", int, "c").as_dtype(),
        "as_dtype is for str attributes, got 'a'",
    ),
    "unknown dtype of an attribute": (
        lambda m: m.add_attr("a", str, "c").as_dtype("flot32"),
        "the dtypes of 'a' must be canonical names, got 'flot32'; did you mean 'float32'?",
    ),
    "unknown dtype of a slot": (
        lambda m: m.add_input("y", "c").dtypes("int"),
        "the dtypes of 'y' must be canonical names, got 'int'; did you mean 'int",
    ),
    "no dtypes": (
        lambda m: m.add_input("y", "c").dtypes(),
        "dtypes must list the dtypes of 'y', got none",
    ),
    "same dtype as an unknown slot": (
        lambda m: m.add_input("yy", "c").same_dtype_as("zz"),
        "same_dtype_as of 'yy' must name an input or a dtype attribute, got 'zz'; these are 'x'",
    ),
    "same dtype as an output": (
        lambda m: m.add_input("y", "c").same_dtype_as("out"),
        "same_dtype_as of 'y' must name an input or a dtype attribute, got 'out'",
    ),
    "same dtype as itself": (
        lambda m: m.add_input("y", "c").same_dtype_as("y"),
        "same_dtype_as of 'y' must name an input or a dtype attribute, got 'y'",
    ),
    "same dtype as a plain attribute": (
        lambda m: m.add_attr("a", str, "c").add_output("y", "c").same_dtype_as("a"),
        "same_dtype_as of 'y' must name an input or a dtype attribute, got 'a'",
    ),
    "alias of an unknown slot": (
        lambda m: m.add_output("y", "c").aliases("xs"),
        "aliases of 'y' must name an input, got 'xs'",
    ),
    "alias of an output": (
        lambda m: m.add_output("y", "c").aliases("out"),
        "aliases of 'y' must name an input, got 'out'",
    ),
    "alias by an input": (
        lambda m: m.add_input("y", "c").aliases("x"),
        "aliases must follow add_output, got the input 'y' before it",
    ),
    "two aliases of one input": (
        lambda m: m.add_output("y", "c").aliases("x").add_output("z", "c").aliases("x"),
        "an input must be aliased by one output, got ['y', 'z'] for 'x'",
    ),
    "alias of a list": (
        lambda m: m.add_input("l", "c").as_duplicable().add_output("y", "c").aliases("l"),
        (
            "output 'y' and the input that it aliases must both be duplicable or neither, and "
            "the input must not be shape-only, got 'l'"
        ),
    ),
    "alias of a shape": (
        lambda m: m.add_input("l", "c").as_shape_only().add_output("y", "c").aliases("l"),
        (
            "output 'y' and the input that it aliases must both be duplicable or neither, and "
            "the input must not be shape-only, got 'l'"
        ),
    ),
    "dispatch on an unknown name": (
        lambda m: m.dispatch_on("zz"),
        (
            "dispatch_on must name a required input, or a dtype attribute that is never absent, "
            "got 'zz'; these are 'x'"
        ),
    ),
    "dispatch on an optional input": (
        lambda m: m.add_input("y", "c").as_optional().dispatch_on("y"),
        (
            "dispatch_on must name a required input, or a dtype attribute that is never absent, "
            "got 'y'"
        ),
    ),
    "dispatch on a dtype that may be absent": (
        lambda m: m.add_attr("dtype", str, "c").as_dtype().dispatch_on("dtype"),
        (
            "dispatch_on must name a required input, or a dtype attribute that is never absent, "
            "got 'dtype'"
        ),
    ),
    "slot constraint on an attribute": (
        lambda m: m.add_attr("a", int, "c").as_optional(),
        "as_optional must follow add_input or add_output, got the attribute 'a' before it",
    ),
    "attribute constraint on a slot": (
        lambda m: m.default(1),
        "default must follow add_attr, got the output 'out' before it",
    ),
    "intermediate input": (
        lambda m: m.add_input("y", "c").as_intermediate(),
        "as_intermediate must follow add_output, got the input 'y' before it",
    ),
    "shape-only output": (
        lambda m: m.as_shape_only(),
        "as_shape_only must follow add_input, got the output 'out' before it",
    ),
    "shape operand of floats": (
        lambda m: m.add_attr("a", list[float], "c").as_shape_operand(),
        "as_shape_operand is for int, list[int] and float, got attribute 'a', list[float]",
    ),
    "dtype of no name": (
        lambda m: m.add_attr("a", str, "c").as_dtype("float32").default("flot32"),
        "the default of 'a' must be an allowed value: a must be one of 'float32'",
    ),
    "second comment": (
        lambda m: m.add_comment("Another."),
        "add_comment must be called once, got a second comment",
    ),
}


@pytest.mark.parametrize(("spoil", "message"), MISTAKES.values(), ids=MISTAKES)
def test_every_mistake_raises_an_error_that_names_it(spoil, message):
    with pytest.raises(RegistrationError, match=re.escape(f"acme.op: {message}")):
        build(spoil(maker()))


@pytest.mark.parametrize("method", ["default", "at_least", "one_of"])
def test_a_constraint_before_any_attribute_is_refused(method):
    with pytest.raises(
        RegistrationError, match=f"{method} must follow add_attr, got nothing before"
    ):
        getattr(OpMaker("op"), method)(1)


def test_a_constraint_before_any_slot_is_refused():
    with pytest.raises(
        RegistrationError, match=r"must follow add_input or add_output, got nothing"
    ):
        OpMaker("op").as_optional()


@pytest.mark.parametrize("type", ["Swish", "acme.Swish", "a.b.c", "", "1x", "acme.", "rms-norm", 3])
def test_an_operator_type_must_be_snake_case(type):
    with pytest.raises(RegistrationError, match=r"an operator type must be lower_snake"):
        OpMaker(type)


@pytest.mark.parametrize("type", ["lambda", "acme.class"])
def test_an_operator_type_must_not_be_a_keyword(type):
    with pytest.raises(RegistrationError, match=r"must not be a Python keyword"):
        OpMaker(type)
