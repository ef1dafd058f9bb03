"""Laws of messages: everything comes back as it went, and nothing foreign is believed."""

from __future__ import annotations

import math
import re
import subprocess
import sys
import zlib

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


def whole_proto() -> OpProto:  # that uses every field of every message
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


def test_an_operator_comes_back_as_it_went():
    proto = whole_proto()
    assert OpProto.from_proto(proto.to_proto().SerializeToString()) == proto
    assert OpProto.from_proto(proto.to_proto()) == proto


def test_the_smallest_operator_comes_back():
    proto = OpMaker("op").add_comment("c").add_input("x", "c").build(lambda ctx: None).proto
    assert OpProto.from_proto(proto.to_proto().SerializeToString()) == proto


def test_a_version_that_is_not_set_is_the_first():
    message = whole_proto().to_proto()
    message.version = 0
    assert OpProto.from_proto(message).version == 1


def test_the_numbers_of_types_are_those_of_the_wire_format():
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
def test_every_value_comes_back_with_its_type(pair):
    type, value = pair
    data = messages.value_to_bytes(type, value, "op")
    assert pb.AttrValue.FromString(data).SerializeToString() == data
    again = _runtime.read_message(data, wire_reading.VALUE)
    back = wire_reading.read_value(again, "op", type)
    assert back == value
    assert back.__class__ is value.__class__


def test_nan_comes_back():
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
def test_a_value_of_another_type_is_not_written(type, value, message):
    with pytest.raises(FormatError, match=re.escape(message)):
        messages.value_to_bytes(type, value, "op")


def test_a_value_of_another_type_is_not_read():
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


def test_a_foreign_operator_keeps_the_rules_for_operators():
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


def test_rules_for_inputs_hold_for_messages_too():
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


def test_rules_for_dtypes_and_allowed_values_hold_for_messages_too():
    message = whole_proto().to_proto()
    message.inputs[0].dtypes.append("floaty")
    with pytest.raises(RegistrationError, match=r"acme.whole: the dtypes of 'x' must be canonical"):
        OpProto.from_proto(message)
    attr = AttrProto("a", "c", AttrType.INT, allowed=(1, "b"))
    with pytest.raises(RegistrationError, match=r"op: each value allowed for 'a' must be an int"):
        check_op_proto(OpProto("op", "c", attrs=(attr,)))


def test_rules_for_ranges_hold_for_messages_too():
    message = whole_proto().to_proto()
    message.attrs[2].min.s = "a"
    with pytest.raises(
        RegistrationError, match=r"acme.whole: a range is for numbers, got attribute 's'"
    ):
        OpProto.from_proto(message)


@pytest.mark.parametrize("data", [b"\xff\xff", b"hello world", b"\x0a\x7f"])
def test_foreign_bytes_are_no_operator(data):
    with pytest.raises(FormatError, match=r"operator: truncated or foreign bytes"):
        OpProto.from_proto(data)


def test_an_oversized_operator_is_not_looked_at():
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


def test_an_operator_of_a_program_comes_back_as_it_went():
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


def test_a_slot_that_is_written_twice_is_refused():
    message = pb.OpDesc(type="op")
    for _ in range(2):
        message.inputs.add(slot="x", names=["a"])
    with pytest.raises(FormatError, match=r"op: a slot must be written once, got 'x' twice"):
        read_op(message)


def test_an_attribute_that_is_written_twice_is_refused():
    message = pb.OpDesc(type="op")
    message.attrs["a"].i = 1
    data = message.SerializeToString()
    with pytest.raises(FormatError, match=r"op: an attribute must be written once"):
        wire_reading.read_op(_runtime.read_message(data + data[4:], wire_reading.OP))


# -- programs --------------------------------------------------------------------------------------


def program():
    """A program that uses every field."""
    message = pb.ProgramDesc(seed=2**64 - 1, next_stream=3, feeds=["x"], fetches=["y"])
    message.requires.add(plugin="acme", distribution="opwright-acme", version="1.0")
    outer = message.blocks.add(idx=0, parent_idx=-1)
    outer.vars.add(name="x", shape=pb.Shape(dims=[-1, 3]), dtype="float32", is_data=True)
    outer.vars.add(name="w", shape=pb.Shape(), dtype="float64", is_parameter=True, frozen=True)
    outer.vars.add(name="y", dtype="int64", persistable=True, stop_gradient=True)
    slots = {"x": ("x",)}, {"out": ("y",)}
    outer.ops.append(written_op(whole_proto(), *slots, {"block": 1, "ints": (1,)}))
    message.blocks.add(idx=1, parent_idx=0)
    return message


def plain(message):
    """Return what protobuf has read, as `read_message` gives it."""
    if not hasattr(message, "ListFields"):
        return message
    fields = {}
    for field, value in message.ListFields():
        if field.name == "attrs":
            entries = [{"key": key, "value": plain(value[key])} for key in sorted(value)]
            fields[field.name] = entries
        elif not isinstance(value, str) and hasattr(value, "__len__"):
            fields[field.name] = [plain(element) for element in value]
        else:
            fields[field.name] = plain(value)
    return fields


def to_bytes(message):
    return messages.program_to_bytes(plain(message))


def test_a_program_is_written_as_protobuf_writes_it():
    message = program()
    data = to_bytes(message)
    message.format, message.format_version = "opwright.program", 1
    again = pb.ProgramDesc.FromString(data)
    again.ClearField("checksum")
    assert again == message
    assert len(data) == len(sealed(message.SerializeToString()))  # entries of a map have no order


def test_a_program_comes_back_as_it_went():
    message = program()
    again = wire_reading.read_program(to_bytes(message))
    head = {"format", "format_version", "checksum"}
    assert plain(message) == {key: again[key] for key in again if key not in head}
    scalar, unknown = again["blocks"][0]["vars"][1:]
    assert ("shape" in scalar, "shape" in unknown) == (True, False)


def test_a_program_is_one_sequence_of_bytes():
    data = to_bytes(program())
    assert data == to_bytes(program())
    assert data == to_bytes(pb.ProgramDesc.FromString(data))


def test_attributes_are_written_in_one_order():
    one, other = pb.ProgramDesc(), pb.ProgramDesc()
    names = [f"a{i}" for i in range(50)]
    for message, order in ((one, names), (other, names[::-1])):
        op = message.blocks.add().ops.add()
        for name in order:
            op.attrs[name].i = 1
    assert to_bytes(one) == to_bytes(other)


def test_the_checksum_is_at_the_position_of_the_wire_format():
    data = to_bytes(program())
    assert pb.ProgramDesc.FromString(data).checksum == zlib.crc32(data[:-6])
    assert max(field.number for field in pb.ProgramDesc.DESCRIPTOR.fields) == 2000


def test_a_program_of_one_process_is_read_by_another(tmp_path):
    path = tmp_path / "program.pb"
    path.write_bytes(to_bytes(program()))
    code = (
        "import sys; from opwright.describe.wire_reading import read_program, read_op\n"
        f"message = read_program(open({str(path)!r}, 'rb').read())\n"
        "print(read_op(message['blocks'][0]['ops'][0]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(read_op(program().blocks[0].ops[0]))


def test_a_program_truncated_anywhere_is_refused():
    data = to_bytes(program())
    for length in range(len(data)):
        with pytest.raises(
            FormatError, match=r"program: (no program of opwright|truncated or dam)"
        ):
            wire_reading.read_program(data[:length])


def test_a_program_with_any_byte_changed_is_refused():
    data = to_bytes(program())
    for index in range(len(data)):
        changed = bytearray(data)
        changed[index] ^= 0x10
        with pytest.raises(FormatError, match=r"program: "):
            wire_reading.read_program(bytes(changed))


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 a zip", b"\x08\x01", bytes(1000)])
def test_foreign_bytes_are_no_program(data):
    with pytest.raises(FormatError, match=r"program: no program of opwright, got bytes that begin"):
        wire_reading.read_program(data)


def sealed(data):
    return data + b"\x85\x7d" + zlib.crc32(data).to_bytes(4, "little")


def test_a_sealed_but_broken_message_is_refused():
    start = to_bytes(pb.ProgramDesc())[:18]
    with pytest.raises(FormatError, match=r"program: truncated or foreign bytes"):
        wire_reading.read_program(sealed(start + b"\x1a\xff"))


@pytest.mark.parametrize("version", [0, 2])
def test_a_program_of_another_format_version_is_refused(version):
    message = program()
    message.format = "opwright.program"
    message.format_version = version
    with pytest.raises(
        FormatError, match=f"program: format version must be at most 1, got {version}"
    ):
        wire_reading.read_program(sealed(message.SerializeToString(deterministic=True)))


def test_a_program_with_fields_of_tomorrow_is_read():
    message = program()
    message.format = "opwright.program"
    message.format_version = 1
    data = message.SerializeToString(deterministic=True) + b"\xd2\x0f\x03abc"  # field 250
    assert wire_reading.read_program(sealed(data))["seed"] == message.seed


def test_an_oversized_program_is_not_looked_at(monkeypatch):
    data = to_bytes(program())
    with pytest.raises(FormatError, match=f"program: must have at most 10 bytes, got {len(data)}"):
        wire_reading.read_program(data, max_bytes=10)
    monkeypatch.setattr(messages, "MAX_PROGRAM_BYTES", 20)
    with pytest.raises(FormatError, match=r"program: must have at most 14 bytes, got"):
        to_bytes(program())
