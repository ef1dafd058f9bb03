"""Messages survive a round trip, and foreign messages are refused."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opwright import _runtime
from opwright import framework_pb2 as pb
from opwright.describe import wire as messages
from opwright.describe import wire_reading
from opwright.describe.proto_rules import check_op_proto
from opwright.errors import FormatError, RegistrationError
from opwright.op import BLOCK, AttrProto, AttrType, OpMaker, OpProto


def whole_proto() -> OpProto:  # uses every field of every message
    return (
        OpMaker("acme.whole", version=4)
        .add_comment("Everything, é included.")
        .add_input("x", "a list")
        .as_duplicable()
        .same_dtype_as("x")
        .dtypes("float32", "bfloat16")
        .add_input("like", "a shape")
        .as_shape_only()
        .as_optional()
        .add_input("state", "state")
        .add_output("out", "c")
        .same_dtype_as("x")
        .add_output("state_out", "c")
        .same_dtype_as("state")
        .aliases("state")
        .add_output("mask", "c")
        .as_intermediate()
        .dtypes("bool")
        .add_attr("i", int, "c")
        .default(-3)
        .between(-(2**63), 2**63 - 1)
        .add_attr("f", float, "c")
        .default(-math.inf)
        .less_than(0)
        .add_attr("s", str, "c")
        .default("")
        .add_attr("b", bool, "c")
        .default(False)
        .add_attr("ints", list[int], "c")
        .as_shape_operand()
        .default([])
        .greater_than(0)
        .add_attr("floats", list[float], "c")
        .default([0.1, 1e300])
        .add_attr("strings", list[str], "c")
        .default(["a"])
        .one_of("a", "b")
        .add_attr("bools", list[bool], "c")
        .default([True, False])
        .add_attr("block", BLOCK, "c")
        .required()
        .add_attr("absent", float, "c")
        .at_least(0)
        .dispatch_on("state")
        .dynamic_output()
        .build(lambda ctx: None)
        .proto
    )


def test_an_operator_survives_a_round_trip():
    proto = whole_proto()
    assert OpProto.from_proto(proto.to_proto().SerializeToString()) == proto
    assert OpProto.from_proto(proto.to_proto()) == proto


def test_the_smallest_operator_survives_a_round_trip():
    proto = OpMaker("op").add_comment("c").add_input("x", "c").build(lambda ctx: None).proto
    assert OpProto.from_proto(proto.to_proto().SerializeToString()) == proto


def test_an_unset_version_means_version_one():
    message = whole_proto().to_proto()
    message.version = 0
    assert OpProto.from_proto(message).version == 1


def test_attribute_type_values_match_the_wire_format():
    assert {type.name: type.value for type in AttrType} == dict(pb.AttrType.items()[1:])


TEXTS = st.text("a\0 \u00e9\u4e2d\U0001f600", max_size=6)
VALUES = {
    AttrType.INT: st.integers(-(2**63), 2**63 - 1),
    AttrType.FLOAT: st.floats(allow_nan=False),
    AttrType.STRING: TEXTS,
    AttrType.BOOL: st.booleans(),
    AttrType.INTS: st.lists(st.integers(-(2**63), 2**63 - 1)).map(tuple),
    AttrType.FLOATS: st.lists(st.floats(allow_nan=False)).map(tuple),
    AttrType.STRINGS: st.lists(TEXTS).map(tuple),
    AttrType.BOOLS: st.lists(st.booleans()).map(tuple),
    AttrType.BLOCK: st.integers(0, 2**31 - 1),
}


@given(st.sampled_from(AttrType).flatmap(lambda type: st.tuples(st.just(type), VALUES[type])))
def test_every_value_keeps_its_type_in_a_round_trip(pair):
    type, value = pair
    data = messages.value_to_bytes(type, value, "op")
    assert pb.AttrValue.FromString(data).SerializeToString() == data
    again = _runtime.read_message(data, wire_reading.VALUE)
    back = wire_reading.read_value(again, "op", type)
    assert back == value
    assert back.__class__ is value.__class__


def test_nan_survives_a_round_trip():
    data = messages.value_to_bytes(AttrType.FLOAT, math.nan, "op")
    again = _runtime.read_message(data, wire_reading.VALUE)
    assert math.isnan(wire_reading.read_value(again, "op"))


@pytest.mark.parametrize(
    ("type", "value", "message"),
    [
        (AttrType.INT, True, "op: must be int to be written, got True"),
        (AttrType.INTS, (1.5,), "op: must be list[int] to be written, got (1.5,)"),
        (AttrType.INT, 2**63, "op: cannot be written, got 9223372036854775808"),
        (AttrType.STRING, "\ud800", "op: cannot be written, got '\\ud800'"),
        (AttrType.BLOCK, 2**31, "op: cannot be written, got 2147483648"),
    ],
)
def test_a_value_of_a_wrong_type_is_not_written(type, value, message):
    with pytest.raises(FormatError, match=re.escape(message)):
        messages.value_to_bytes(type, value, "op")


def test_a_value_of_a_wrong_type_is_not_read():
    with pytest.raises(FormatError, match=r"op: must have a value, got an empty AttrValue"):
        wire_reading.read_value({}, "op")
    with pytest.raises(FormatError, match=r"op: must be float, got int"):
        wire_reading.read_value({"i": 1}, "op", AttrType.FLOAT)
    with pytest.raises(FormatError, match=r"op: must have one value, got an AttrValue with 2"):
        wire_reading.read_value({"i": 1, "f": 1.0}, "op")


def spoiled(**changes):
    message = whole_proto().to_proto()
    for name, value in changes.items():
        setattr(message, name, value)
    return message


def test_an_operator_from_a_message_must_satisfy_the_rules_for_operators():
    with pytest.raises(RegistrationError, match=r"Acme: an operator type must be lower_snake"):
        OpProto.from_proto(spoiled(type="Acme"))
    with pytest.raises(
        RegistrationError, match=r"acme.whole: dispatch_on must name a required input"
    ):
        OpProto.from_proto(spoiled(dispatch="nothing"))
    message = whole_proto().to_proto()
    message.attrs[0].type = 77
    with pytest.raises(
        FormatError, match=r"acme.whole: attribute 'i': must have a known type, got type 77"
    ):
        OpProto.from_proto(message)
    message.attrs[0].type = AttrType.FLOAT.value
    with pytest.raises(FormatError, match=r"acme.whole: attribute 'i': must be float, got int"):
        OpProto.from_proto(message)


def test_rules_for_inputs_also_apply_to_messages():
    message = whole_proto().to_proto()
    message.inputs[0].intermediate = True
    with pytest.raises(
        RegistrationError, match=r"acme.whole: as_intermediate is for outputs, got input"
    ):
        OpProto.from_proto(message)
    message = whole_proto().to_proto()
    message.outputs[0].shape_only = True
    with pytest.raises(
        RegistrationError, match=r"acme.whole: as_shape_only is for inputs, got output"
    ):
        OpProto.from_proto(message)


def test_rules_for_dtypes_and_allowed_values_also_apply_to_messages():
    message = whole_proto().to_proto()
    message.inputs[0].dtypes.append("floaty")
    with pytest.raises(RegistrationError, match=r"acme.whole: the dtypes of 'x' must be canonical"):
        OpProto.from_proto(message)
    attr = AttrProto("a", "c", AttrType.INT, allowed=(1, "b"))
    with pytest.raises(RegistrationError, match=r"op: each value allowed for 'a' must be an int"):
        check_op_proto(OpProto("op", "c", attrs=(attr,)))


def test_rules_for_ranges_also_apply_to_messages():
    message = whole_proto().to_proto()
    message.attrs[2].min.s = "a"
    with pytest.raises(
        RegistrationError, match=r"acme.whole: a range is for numbers, got attribute 's'"
    ):
        OpProto.from_proto(message)


@pytest.mark.parametrize("data", [b"\xff\xff", b"hello world", b"\x0a\x7f"])
def test_foreign_bytes_raise_a_format_error(data):
    with pytest.raises(FormatError, match=r"operator: truncated or foreign bytes"):
        OpProto.from_proto(data)


def test_an_oversized_operator_is_refused_without_parsing():
    data = b"x" * (wire_reading.MAX_OP_PROTO_BYTES + 1)
    with pytest.raises(
        FormatError, match=r"operator: must have at most 1048576 bytes, got 1048577"
    ):
        OpProto.from_proto(data)


# -- operators of a program ------------------------------------------------------------------------


def written_op(*parts):
    data = messages.write_message(messages.op_to_message(*parts), wire_reading.OP)
    return pb.OpDesc.FromString(data)


def read_op(message):
    data = message.SerializeToString()
    return wire_reading.read_op(_runtime.read_message(data, wire_reading.OP))


def test_an_operator_of_a_program_survives_a_round_trip():
    inputs = {"x": ("a", "b"), "like": (), "state": ("s",)}
    outputs = {"out": ("c",), "state_out": ("s",)}
    attrs = {"block": 1, "i": 5, "floats": (), "f": -1.0, "s": "é", "bools": (True,)}
    message = written_op(whole_proto(), inputs, outputs, attrs)
    op_type, version, again = read_op(message)
    assert (op_type, version) == ("acme.whole", 4)
    assert again["inputs"] == {"x": ("a", "b"), "state": ("s",)}
    assert list(again["outputs"].items()) == list(outputs.items())
    assert again["attrs"] == attrs
    assert list(again["attrs"]) == sorted(attrs)


def test_a_duplicate_slot_is_refused():
    message = pb.OpDesc(type="op")
    for _ in range(2):
        message.inputs.add(slot="x", names=["a"])
    with pytest.raises(FormatError, match=r"op: a slot must be written once, got 'x' twice"):
        read_op(message)


def test_a_duplicate_attribute_is_refused():
    message = pb.OpDesc(type="op")
    message.attrs["a"].i = 1
    data = message.SerializeToString()
    with pytest.raises(FormatError, match=r"op: an attribute must be written once"):
        wire_reading.read_op(_runtime.read_message(data + data[4:], wire_reading.OP))


def test_attributes_are_written_in_a_fixed_order():
    attrs = {"i": 5, "b": True, "f": 1.0}
    orders = attrs, dict(reversed(attrs.items()))
    one, other = (messages.op_to_message(whole_proto(), {}, {}, order) for order in orders)
    assert one == other
