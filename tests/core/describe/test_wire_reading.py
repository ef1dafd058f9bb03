"""The message reader decodes the wire format and refuses malformed messages."""

from __future__ import annotations

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto

from opwright import _runtime
from opwright import framework_pb2 as pb
from opwright.describe import wire_reading

SCHEMA = {
    1: ("i32", "i", False, None),
    2: ("u64", "u", False, None),
    3: ("names", "s", True, None),
    4: ("numbers", "I", True, None),
    5: ("inner", "m", False, {1: ("flag", "b", False, None)}),
    6: ("d", "d", True, None),
    7: ("f", "f", False, None),
}


def read(*parts):
    return _runtime.read_message(b"".join(parts), SCHEMA)


def test_each_kind_of_field_is_read():
    assert read() == {}
    assert read(b"\x08" + b"\xff" * 9 + b"\x01", b"\x10" + b"\xff" * 9 + b"\x01") == {
        "i32": -1,
        "u64": 2**64 - 1,
    }
    assert read(b"\x1a\x02\xc3\xa9", b"\x1a\x00") == {"names": ["é", ""]}
    assert read(b"\x20\x05", b"\x22\x02\x06\x07", b"\x22\x00") == {"numbers": [5, 6, 7]}
    assert read(b"\x2a\x02\x08\x02", b"\x3d\x01\x00\x00\x00") == {"inner": {"flag": True}, "f": 1}
    assert read(b"\x31" + bytes(8), b"\x32\x08" + bytes(8)) == {"d": [0.0, 0.0]}


def test_unknown_fields_are_skipped():
    unknown = (b"\x50\x01", b"\x51" + bytes(8), b"\x52\x01a", b"\x55" + bytes(4))
    assert read(*unknown, b"\x08\x01") == {"i32": 1}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x08", "longer than its message"),
        (b"\x1a\x05ab", "longer than its message"),
        (b"\x31" + bytes(7), "longer than its message"),
        (b"\x1a" + b"\xff" * 9 + b"\x01", "longer than its message"),
        (b"\x2a\x03\x08\x01", "longer than its message"),
        (b"\x2a\x01\x08", "longer than its message"),
        (b"\x10" + b"\xff" * 9 + b"\x02", "longer than 64 bits"),
        (b"\x10" + b"\x80" * 10 + b"\x00", "longer than 64 bits"),
        (b"\x08\xff\xff\xff\xff\x0f", "longer than 32 bits"),
        (b"\x08\x01\x08\x01", "written twice"),
        (b"\x2a\x00\x2a\x00", "written twice"),
        (b"\x0a\x00", "another type"),
        (b"\x18\x01", "another type"),
        (b"\x21" + bytes(8), "another type"),
        (b"\x00\x01", "unknown number"),
        (b"\x53", "unknown wire type"),
        (b"\x1a\x01\xff", "can't decode byte 0xff"),
    ],
)
def test_a_malformed_message_is_refused(data, text):
    with pytest.raises(ValueError, match=text):
        read(data)


def test_the_tables_match_the_wire_format():
    kinds = {1: "d", 3: "I", 4: "u", 5: "i", 7: "f", 8: "b", 9: "s", 11: "m", 14: "i"}

    def table(message):
        proto = DescriptorProto()
        message.CopyToProto(proto)
        return {
            field.number: (
                field.name,
                kinds[field.type],
                labeled.label == labeled.LABEL_REPEATED,
                None if field.message_type is None else table(field.message_type),
            )
            for field, labeled in zip(message.fields, proto.field, strict=True)
        }

    assert table(pb.OpProto.DESCRIPTOR) == wire_reading.OP_PROTO
    assert table(pb.ProgramDesc.DESCRIPTOR) == wire_reading.PROGRAM


def test_bytes_and_floats_are_read() -> None:
    schema = {1: ("data", "y", False, None), 2: ("numbers", "g", True, None)}
    data = b"\x0a\x02\xff\x00\x12\x04\x00\x00\x80\x3f"
    assert _runtime.read_message(data, schema) == {"data": b"\xff\x00", "numbers": [1.0]}


def test_the_nesting_depth_of_messages_is_limited() -> None:
    schema: dict[int, tuple[str, str, bool, object]] = {}
    schema[1] = ("inner", "m", False, schema)
    data = b""
    for _ in range(101):
        size = len(data)
        length = bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])
        data = b"\x0a" + length + data
    with pytest.raises(ValueError, match="too deeply"):
        _runtime.read_message(data, schema)
