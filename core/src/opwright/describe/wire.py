"""Serializes operators and programs as protobuf messages, without importing protobuf.

`opwright.describe.wire_reading` parses the messages, and contains the tables of their fields.
Importing protobuf takes 11 ms.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from opwright.describe.attribute_values import AttrType, AttrValue, convert_value
from opwright.describe.wire_reading import (
    CHECKSUM_BYTES,
    FORMAT_VERSION,
    MAX_PROGRAM_BYTES,
    OP_PROTO,
    PROGRAM,
    PROGRAM_FORMAT,
    VALUE,
    Message,
    Schema,
    check_size,
    checksum_field,
)
from opwright.errors import FormatError

if TYPE_CHECKING:
    from opwright.describe.op_proto import AttrProto, OpProto

_VARINT, _FIXED64, _LENGTH = 0, 1, 2
"""Wire types of protobuf."""

_RANGES: Final = {"i": (-(2**31), 2**31), "I": (-(2**63), 2**63), "u": (0, 2**64), "b": (0, 2)}

# -- bytes -----------------------------------------------------------------------------------------


def write_message(message: Message, schema: Schema) -> bytes:
    """Serialize a message in the protobuf encoding, with fields by number and without zeros.

    A nested message may already be bytes. A field of a oneof, such as `VALUE`, is written even if
    it is zero. Raises ValueError for a number out of range and a string of invalid Unicode.
    """
    parts: list[bytes] = []
    for number, (name, kind, is_list, inner) in schema.items():
        value = message.get(name)
        if value is None or not (value or kind == "m" or (schema is VALUE and name != "rest")):
            continue
        if is_list and kind in _PACKED:
            packed = b"".join(map(_PACKED[kind], value))
            parts += [_tag(number, _LENGTH), varint(len(packed)), packed]
            continue
        for item in value if is_list else (value,):
            if kind in _PACKED:
                parts += [_tag(number, _FIXED64 if kind == "d" else _VARINT), _PACKED[kind](item)]
                continue
            data = item
            if not isinstance(item, bytes):
                data = write_message(item, inner) if kind == "m" else item.encode()
            parts += [_tag(number, _LENGTH), varint(len(data)), data]
    return b"".join(parts)


def _tag(number: int, wire_type: int) -> bytes:
    return varint(number << 3 | wire_type)


def varint(value: int) -> bytes:
    """Encode a non-negative int as a protobuf varint."""
    if value < 128:
        return bytes((value,))
    groups = bytearray()
    while value >= 128:
        groups.append(value & 127 | 128)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def _write_int(kind: str) -> Callable[[int], bytes]:
    least, end = _RANGES[kind]

    def write(value: int) -> bytes:
        if not least <= value < end:
            raise ValueError(f"it must be in [{least}, {end})")
        return varint(value % 2**64)

    return write


_PACKED: Final[Mapping[str, Callable[[Any], bytes]]] = {
    "d": struct.Struct("<d").pack,
    **{kind: _write_int(kind) for kind in _RANGES},
}
"""The function that encodes a number, by kind."""


# -- attributes ------------------------------------------------------------------------------------


def value_to_bytes(type: AttrType, value: AttrValue, who: str) -> bytes:
    """Return an attribute's value as a message; FormatError, with `who`, if its type is wrong."""
    converted = convert_value(type, value)
    if converted is None:
        raise FormatError(f"{who}: must be {type.type_name} to be written, got {value!r}")
    message: dict[str, Any] = {VALUE[type.value][0]: converted}
    if type.is_list:
        message = {VALUE[type.value][0]: {"values": converted}}
        if type is AttrType.FLOATS and any(rests := list(map(_rest_of, converted))):
            message["floats"]["rests"] = rests
    elif type is AttrType.FLOAT:
        message["rest"] = _rest_of(converted)
    try:
        return write_message(message, VALUE)
    except ValueError as error:
        raise FormatError(f"{who}: cannot be written, got {value!r}: {error}") from None


def _rest_of(value: float) -> int:
    """Return the difference between an integer and the nearest double."""
    return value - int(float(value)) if isinstance(value, int) else 0


# -- interfaces of operators -----------------------------------------------------------------------


def op_proto_to_bytes(proto: OpProto) -> bytes:
    """Serialize an OpProto as a message."""
    message = {
        name: getattr(proto, name)
        for name in ("type", "comment", "version", "dispatch", "dynamic_output")
    }
    slot_fields = [name for name, *_ in OP_PROTO[3][3].values()]
    for side in ("inputs", "outputs"):
        slots = getattr(proto, side)
        message[side] = [{name: getattr(slot, name) for name in slot_fields} for slot in slots]
    message["attrs"] = [_attr_to_message(attr, proto.type) for attr in proto.attrs]
    return write_message(message, OP_PROTO)


def _attr_to_message(attr: AttrProto, op_type: str) -> Message:
    element = attr.type.element
    fields = OP_PROTO[5][3].values()
    message = {name: getattr(attr, name) for name, *_ in fields}
    message["type"] = attr.type.value
    message["length"] = attr.length if attr.length != 1 else 0
    who = f"{op_type}: attribute {attr.name!r}"
    for field, type in (("default", attr.type), ("min", element), ("max", element)):
        if message[field] is not None:
            message[field] = value_to_bytes(type, message[field], who)
    message["allowed"] = [value_to_bytes(element, value, who) for value in attr.allowed]
    return message


# -- programs --------------------------------------------------------------------------------------


def op_to_message(
    proto: OpProto,
    inputs: Mapping[str, Sequence[str]],
    outputs: Mapping[str, Sequence[str]],
    attrs: Mapping[str, AttrValue],
) -> Message:
    """Return the message of one operator of a program.

    `inputs` and `outputs` map slots to names; slots without names are skipped. `attrs` are
    complete.
    """
    sides = {
        side: [{"slot": slot, "names": names} for slot, names in given.items() if names]
        for side, given in (("inputs", inputs), ("outputs", outputs))
    }
    values = []
    for name in sorted(attrs):
        who = f"{proto.type}: attribute {name!r}"
        value = value_to_bytes(proto.attr(name).type, attrs[name], who)
        values.append({"key": name, "value": value})
    return {"type": proto.type, "version": proto.version, **sides, "attrs": values}


def program_to_bytes(message: Message) -> bytes:
    """Serialize a program, with format, version and checksum set.

    Raises FormatError if the result exceeds `MAX_PROGRAM_BYTES`, or a name or number is invalid.
    """
    head = {"format": PROGRAM_FORMAT, "format_version": FORMAT_VERSION, "checksum": None}
    try:
        data = write_message({**message, **head}, PROGRAM)
    except ValueError as error:  # a name with half a surrogate pair, a size beyond an int64
        raise FormatError(f"program: cannot be written, got {ascii(str(error))[1:-1]}") from None
    check_size("program", data, MAX_PROGRAM_BYTES - CHECKSUM_BYTES)
    return data + checksum_field(data)
