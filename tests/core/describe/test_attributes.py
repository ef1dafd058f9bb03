"""Attribute values are checked, converted, and filled in with defaults."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from opwright.errors import AttributeTypeError, AttributeValueError
from opwright.op import AttrProto, AttrType, OpProto

INT, FLOAT, STRING, BOOL = AttrType.INT, AttrType.FLOAT, AttrType.STRING, AttrType.BOOL
INTS, FLOATS, STRINGS, BOOLS = AttrType.INTS, AttrType.FLOATS, AttrType.STRINGS, AttrType.BOOLS


class Tensor:
    """A minimal array of another library, with only the methods that attributes call."""

    def __init__(self, elements):
        self.tolist = lambda: elements


def attr(type, **how):
    return AttrProto("value", "a value", type, **how)


@pytest.mark.parametrize(
    ("type", "given", "checked"),
    [
        (INT, 3, 3),
        (INT, np.int8(3), 3),
        (INT, np.uint64(3), 3),
        (FLOAT, 3, 3.0),
        (FLOAT, np.int64(3), 3.0),
        (FLOAT, np.float64(0.5), 0.5),
        (FLOAT, np.float16(0.5), 0.5),
        (FLOAT, -math.inf, -math.inf),
        (STRING, "a", "a"),
        (STRING, np.str_("a"), "a"),
        (BOOL, True, True),
        (BOOL, np.bool_(False), False),
        (INTS, [1, 2], (1, 2)),
        (INTS, (1, np.int32(2)), (1, 2)),
        (INTS, range(3), (0, 1, 2)),
        (INTS, np.array([1, 2]), (1, 2)),
        (INTS, Tensor([1, 2]), (1, 2)),
        (INTS, [Tensor(1), 2], (1, 2)),
        (INT, Tensor(1), 1),
        (BOOL, Tensor(True), True),
        (INTS, [], ()),
        (FLOATS, [1, 0.5], (1.0, 0.5)),
        (FLOATS, np.array([1, 2]), (1.0, 2.0)),
        (STRINGS, ["a", "b"], ("a", "b")),
        (BOOLS, [True, np.False_], (True, False)),
        (AttrType.BLOCK, 2, 2),
    ],
)
def test_values_are_converted_to_plain_python_types(type, given, checked):
    value = attr(type).check("op", given)
    assert value == checked
    for element in value if isinstance(value, tuple) else (value,):
        assert element.__class__ in (int, float, str, bool)
    assert value.__class__ is checked.__class__


@pytest.mark.parametrize(
    ("type", "given", "message"),
    [
        (INT, True, "op: value must be an int, got value=True"),
        (INT, np.True_, "op: value must be an int, got value=np.True_"),
        (INT, 1.0, "op: value must be an int, got value=1.0"),
        (INT, "1", "op: value must be an int, got value='1'"),
        (INT, None, "op: value must be an int, got value=None"),
        (FLOAT, True, "op: value must be a float, got value=True"),
        (FLOAT, "1", "op: value must be a float, got value='1'"),
        (FLOAT, 10**400, "op: value must be a float, got value=1000"),
        (BOOL, 1, "op: value must be a bool, got value=1; write True or False"),
        (BOOL, "no", "op: value must be a bool, got value='no'"),
        (STRING, 1, "op: value must be a str, got value=1"),
        (INTS, 1.5, "op: value must be a list of ints, got value=1.5; write a list such as [1, 2]"),
        (INTS, True, "op: value must be a list of ints, got value=True"),
        (INTS, [1, True], "op: value must be a list of ints, got value=[1, True]"),
        (INTS, [1.0], "op: value must be a list of ints, got value=[1.0]"),
        (INTS, np.array([[1]]), "op: value must be a list of ints, got value="),
        (FLOATS, ["a"], "op: value must be a list of floats, got value=['a']"),
        (STRINGS, "ab", "op: value must be a list of strs, got value='ab'"),
        (BOOLS, [1], "op: value must be a list of bools, got value=[1]"),
        (AttrType.BLOCK, "main", "op: value must be a block, got value='main'"),
    ],
)
def test_values_of_a_wrong_type_are_refused(type, given, message):
    with pytest.raises(AttributeTypeError, match=re.escape(message)):
        attr(type).check("op", given)


@pytest.mark.parametrize(
    ("type", "rule"),
    [
        (INTS, {}),
        (INTS, {"min": 2}),
        (INTS, {"min": 7, "max": 9}),
        (INTS, {"max": -3}),
        (INTS, {"allowed": (4, 8)}),
        (FLOATS, {"min": 0.0, "max": 0.5, "max_exclusive": True}),
        (FLOATS, {"min": 0.5, "min_exclusive": True}),
        (BOOLS, {"allowed": (False,)}),
    ],
)
def test_a_suggested_list_satisfies_its_rule(type, rule):
    proto = attr(type, **rule)
    with pytest.raises(AttributeTypeError, match="; write a list such as") as raised:
        proto.check("op", "no list")
    advised = eval(str(raised.value).partition("such as ")[2])
    assert advised
    assert list(proto.check("op", advised)) == advised


def test_a_list_is_suggested_only_if_a_round_number_satisfies_the_rule():
    rule = {"min": 0.1, "max": 0.2, "min_exclusive": True, "max_exclusive": True}
    with pytest.raises(AttributeTypeError, match="a list of floats, got value='x'$"):
        attr(FLOATS, **rule).check("op", "x")


@pytest.mark.parametrize("given", [0, 0.0, -1.0, math.nan, 2.0])
def test_values_outside_the_range_are_refused(given):
    ranged = attr(FLOAT, min=0.0, max=2.0, min_exclusive=True, max_exclusive=True)
    with pytest.raises(AttributeValueError, match=r"op: value must be in \(0, 2\), got value="):
        ranged.check("op", given)


def test_an_inclusive_bound_is_accepted():
    ranged = attr(INT, min=-1, max=1)
    assert [ranged.check("op", value) for value in (-1, 0, 1)] == [-1, 0, 1]


@pytest.mark.parametrize("given", [[1, 0], (1, 0), np.array([1, 0])])
def test_the_range_applies_to_each_element_of_a_list(given):
    message = r"op: every element of value must be in \[1, inf\), got value=\(1, 0\)"
    with pytest.raises(AttributeValueError, match=message):
        attr(INTS, min=1).check("op", given)


def test_ints_must_fit_in_64_bits():
    assert attr(INT).check("op", 2**63 - 1) == 2**63 - 1
    for value in (2**63, -(2**63) - 1):
        with pytest.raises(AttributeValueError, match=r"op: value must be in \[-9223372036854"):
            attr(INT).check("op", value)
    with pytest.raises(AttributeValueError, match=r"op: every element of value must be in"):
        attr(INTS).check("op", [2**63])


def test_the_error_for_a_value_that_is_not_allowed_suggests_the_nearest_value():
    one_of = attr(STRING, allowed=("none", "tanh"))
    assert one_of.check("op", "tanh") == "tanh"
    message = "op: value must be one of 'none', 'tanh', got value='tanj'; did you mean 'tanh'?"
    with pytest.raises(AttributeValueError, match=re.escape(message)):
        one_of.check("op", "tanj")
    with pytest.raises(AttributeValueError, match=r"must be one of 1, 2, got value=3$"):
        attr(INT, allowed=(1, 2)).check("op", 3)


def test_a_dtype_attribute_accepts_all_numpy_dtypes():
    dtype = attr(STRING, allowed=("float32", "float64"))
    assert dtype.is_dtype
    assert dtype.check("op", np.float32) == dtype.check("op", np.dtype("f4")) == "float32"
    with pytest.raises(AttributeValueError, match=r"must be one of 'float32', 'float64', got"):
        dtype.check("op", np.int8)
    with pytest.raises(AttributeTypeError, match=r"op: value must be a str, got value=3"):
        dtype.check("op", 3)
    assert not attr(STRING, allowed=("float32", "tanh")).is_dtype


@pytest.mark.parametrize(
    ("proto", "text"),
    [
        (attr(FLOAT), ""),
        (attr(FLOAT, min=0.0, min_exclusive=True), "(0, inf)"),
        (attr(FLOAT, min=0.0, max=1.0), "[0, 1]"),
        (attr(FLOAT, max=0.5, max_exclusive=True), "(-inf, 0.5)"),
        (attr(FLOAT, min=1e-12), "[1e-12, inf)"),
        (attr(FLOAT, min=1e300), "[1e+300, inf)"),
        (attr(FLOAT, min=-math.inf, max=math.inf), "[-inf, inf]"),
        (attr(INT, min=1, max=8), "[1, 8]"),
        (attr(STRING, allowed=("a", "b")), "one of 'a', 'b'"),
        (attr(INTS, allowed=(1, 2)), "one of 1, 2"),
    ],
)
def test_ranges_are_described_in_mathematical_notation(proto, text):
    assert proto.describe_range() == text


def test_types_are_named_in_python_notation():
    names = [attr(type).type_name for type in AttrType]
    assert names == [
        "int",
        "float",
        "str",
        "bool",
        "list[int]",
        "list[float]",
        "list[str]",
        "list[bool]",
        "block",
    ]


PROTO = OpProto(
    "op",
    "an operator",
    attrs=(
        AttrProto("axis", "axis", INT, required=True),
        AttrProto("scale", "scale", FLOAT, default=1.0, min=0.0),
        AttrProto("starts", "starts", INTS, default=(0,)),
        AttrProto("limit", "limit", FLOAT),
    ),
)


def test_defaults_are_filled_in_and_absent_attributes_omitted():
    assert PROTO.fill_attrs({"axis": 1}) == {"axis": 1, "scale": 1.0, "starts": (0,)}
    assert PROTO.fill_attrs({"limit": 2, "axis": 1})["limit"] == 2.0


def test_filled_attributes_are_in_the_order_of_the_operator():
    given = {"limit": 0.0, "starts": [1], "axis": 0, "scale": 3}
    assert list(PROTO.fill_attrs(given)) == ["axis", "scale", "starts", "limit"]


def test_none_counts_as_omitted():
    given = {"axis": 1, "scale": None, "limit": None}
    assert PROTO.fill_attrs(given) == {"axis": 1, "scale": 1.0, "starts": (0,)}
    with pytest.raises(
        AttributeValueError, match=r"op: the attribute 'axis' is required, got none"
    ):
        PROTO.fill_attrs({"axis": None})


def test_the_given_attribute_object_is_not_modified():
    given = {"axis": 1, "starts": [1]}
    PROTO.fill_attrs(given)["starts"] += (2,)
    assert given == {"axis": 1, "starts": [1]}


def test_the_error_for_an_unknown_attribute_suggests_the_nearest_name():
    message = "op: unknown attribute, got 'axes'; did you mean 'axis'?"
    with pytest.raises(AttributeValueError, match=re.escape(message)):
        PROTO.fill_attrs({"axis": 1, "axes": 1})
    with pytest.raises(AttributeValueError, match=re.escape(message)):
        PROTO.attr("axes")


def test_the_error_for_a_missing_attribute_shows_the_expected_value():
    message = "op: the attribute 'axis' is required, got none; give axis=, an int"
    with pytest.raises(AttributeValueError, match=re.escape(message)):
        PROTO.fill_attrs({})
