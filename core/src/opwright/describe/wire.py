"""Converts plain objects to protobuf messages and back; bytes are checked before they are read.

Importing this module imports protobuf (11 ms), so other modules import it inside the functions that
need it. Besides this module only `opwright.program.serialize` touches messages.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from google.protobuf.message import DecodeError, EncodeError, Message

from opwright import framework_pb2 as pb
from opwright.describe.attribute_values import AttrType, AttrValue, convert_value
from opwright.errors import FormatError

if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

    from opwright.describe.op_proto import AttrProto, OpProto, VarProto

MAX_OP_PROTO_BYTES: Final = 1 << 20
"""One operator has a few hundred bytes; more than this cannot be an operator."""

MAX_PROGRAM_BYTES: Final = 256 << 20
"""A program of 100,000 operators is about 20 MB."""

PROGRAM_FORMAT: Final = "opwright.program"
FORMAT_VERSION: Final = 1
"""The version of programs that this release writes, and the newest that it reads."""

# A serialised ProgramDesc begins with its field `format`, and ends with its field `checksum`.
_PROGRAM_START: Final = b"\x0a" + bytes([len(PROGRAM_FORMAT)]) + PROGRAM_FORMAT.encode()
_CHECKSUM_TAG: Final = b"\x85\x7d"  # field 2000, wire type 5 (four bytes, little-endian)
_CHECKSUM_BYTES: Final = len(_CHECKSUM_TAG) + 4

# The fields of an AttrValue bear the numbers of the types.
_FIELDS: Final = {AttrType(field.number): field.name for field in pb.AttrValue.DESCRIPTOR.fields}
_TYPES_OF_FIELDS: Final = {field: type for type, field in _FIELDS.items()}

_AnyMessage = TypeVar("_AnyMessage", bound=Message)


class OpDescription(NamedTuple):
    """One operator of a program as plain values, from an `OpDesc` message."""

    type: str
    inputs: dict[str, tuple[str, ...]]
    outputs: dict[str, tuple[str, ...]]
    attrs: dict[str, AttrValue]
    version: int


# -- attributes ------------------------------------------------------------------------------------


def write_value(message: pb.AttrValue, type: AttrType, value: AttrValue, who: str) -> None:
    """Write an attribute's value into a message; FormatError with `who` for another type."""
    converted = convert_value(type, value)
    if converted is None:
        raise FormatError(f"{who}: must be {type.type_name} to be written, got {value!r}")
    try:
        if type.is_list:
            values = getattr(message, _FIELDS[type])
            values.SetInParent()  # which sets an empty list, too
            values.values.extend(converted)
        else:
            setattr(message, _FIELDS[type], converted)
    except (ValueError, UnicodeEncodeError) as error:
        raise FormatError(f"{who}: cannot be written, got {value!r}: {error}") from None


def read_value(message: pb.AttrValue, who: str, expected: AttrType | None = None) -> AttrValue:
    """Return the value that a message holds.

    Raises FormatError, which begins with `who`, where it has none or not the `expected` type.
    """
    field = message.WhichOneof("value")
    if field is None:
        raise FormatError(f"{who}: must have a value, got an empty AttrValue")
    type = _TYPES_OF_FIELDS[field]
    if expected is not None and type is not expected:
        raise FormatError(f"{who}: must be {expected.type_name}, got {type.type_name}")
    value = getattr(message, field)
    return tuple(value.values) if type.is_list else value


# -- operators seen from outside -------------------------------------------------------------------


def op_proto_to_message(proto: OpProto) -> pb.OpProto:
    """Return the message of an OpProto."""
    return pb.OpProto(
        type=proto.type,
        comment=proto.comment,
        inputs=map(_slot_to_message, proto.inputs),
        outputs=map(_slot_to_message, proto.outputs),
        attrs=[_attr_to_message(attr, proto.type) for attr in proto.attrs],
        version=proto.version,
        dispatch=proto.dispatch,
        dynamic_output=proto.dynamic_output,
    )


def read_op_proto(
    message: pb.OpProto | bytes,
    make_op: type[OpProto],
    make_slot: type[VarProto],
    make_attr: type[AttrProto],
) -> OpProto:
    """Return the OpProto of a message, or of the bytes of one; its rules are not checked.

    `make_op`, `make_slot` and `make_attr` are the classes of the result, which are above this
    module. FormatError where the bytes are too many or foreign, or a value does not have the type
    of its attribute.
    """
    if isinstance(message, bytes):
        _check_size("operator", message, MAX_OP_PROTO_BYTES)
        message = _parse("operator", pb.OpProto(), message)
    return make_op(
        type=message.type,
        comment=message.comment,
        inputs=tuple(make_slot(**_slot_fields(slot)) for slot in message.inputs),
        outputs=tuple(make_slot(**_slot_fields(slot)) for slot in message.outputs),
        attrs=tuple(make_attr(**_attr_fields(attr, message.type)) for attr in message.attrs),
        version=message.version or 1,
        dispatch=message.dispatch or None,
        dynamic_output=message.dynamic_output,
    )


def _slot_to_message(slot: VarProto) -> pb.VarProto:
    return pb.VarProto(
        **{name: getattr(slot, name) for name in pb.VarProto.DESCRIPTOR.fields_by_name}
    )


def _slot_fields(message: pb.VarProto) -> dict[str, Any]:
    fields = {name: getattr(message, name) for name in message.DESCRIPTOR.fields_by_name}
    texts = {name: fields[name] or None for name in ("same_as", "aliases")}
    return {**fields, **texts, "dtypes": tuple(message.dtypes)}


def _attr_to_message(attr: AttrProto, op_type: str) -> pb.AttrProto:
    element = attr.type.element
    message = pb.AttrProto(
        name=attr.name,
        comment=attr.comment,
        type=attr.type.value,  # type: ignore[arg-type]  # the stub wants its own enum
        min_exclusive=attr.min_exclusive,
        max_exclusive=attr.max_exclusive,
        required=attr.required,
        length=attr.length if attr.length != 1 else 0,
    )
    who = f"{op_type}: attribute {attr.name!r}"
    for field, type in (("default", attr.type), ("min", element), ("max", element)):
        if (value := getattr(attr, field)) is not None:
            write_value(getattr(message, field), type, value, who)
    for value in attr.allowed:
        write_value(message.allowed.add(), element, value, who)
    return message


def _attr_fields(message: pb.AttrProto, op_type: str) -> dict[str, Any]:
    who = f"{op_type}: attribute {message.name!r}"
    try:
        type = AttrType(message.type)
    except ValueError:
        raise FormatError(f"{who}: must have a known type, got type {message.type}") from None

    def read(field: str, expected: AttrType) -> Any:
        if not message.HasField(field):
            return None
        return read_value(getattr(message, field), who, expected)

    return {
        "name": message.name,
        "comment": message.comment,
        "type": type,
        "default": read("default", type),
        "min": read("min", type.element),
        "max": read("max", type.element),
        "min_exclusive": message.min_exclusive,
        "max_exclusive": message.max_exclusive,
        "allowed": tuple(read_value(value, who, type.element) for value in message.allowed),
        "required": message.required,
        "length": message.length or 1,
    }


# -- operators of a program ------------------------------------------------------------------------


def write_op(
    message: pb.OpDesc,
    proto: OpProto,
    inputs: Mapping[str, Sequence[str]],
    outputs: Mapping[str, Sequence[str]],
    attrs: Mapping[str, AttrValue],
) -> None:
    """Write one operator of a program into a new message.

    `inputs` and `outputs` map slots to names, of which empty ones are skipped; `attrs` are
    complete.
    """
    message.type = proto.type
    message.version = proto.version
    for slots, given in ((message.inputs, inputs), (message.outputs, outputs)):
        for slot, names in given.items():
            if names:
                slots.add(slot=slot, names=names)
    for name, value in attrs.items():
        who = f"{proto.type}: attribute {name!r}"
        write_value(message.attrs[name], proto.attr(name).type, value, who)


def read_op(message: pb.OpDesc) -> OpDescription:
    """Return one operator of a program as plain values; its attributes are sorted by name."""
    who = message.type
    attrs = {
        name: read_value(message.attrs[name], f"{who}: attribute {name!r}")
        for name in sorted(message.attrs)
    }
    if len(attrs) != len(message.attrs):  # protobuf's iterator just ends where it finds no memory
        raise MemoryError(f"{who}: {len(message.attrs)} attributes, got {len(attrs)}")
    return OpDescription(
        type=message.type,
        inputs=_read_slots(message.inputs, who),
        outputs=_read_slots(message.outputs, who),
        attrs=attrs,
        version=message.version or 1,
    )


def _read_slots(
    slots: RepeatedCompositeFieldContainer[pb.SlotDesc], who: str
) -> dict[str, tuple[str, ...]]:
    by_slot: dict[str, tuple[str, ...]] = {}
    for slot in slots:
        if slot.slot in by_slot:
            raise FormatError(f"{who}: a slot must be written once, got {slot.slot!r} twice")
        if not slot.names:
            raise FormatError(f"{who}: a slot must hold a variable, got none in {slot.slot!r}")
        by_slot[slot.slot] = tuple(slot.names)
    return by_slot


# -- programs --------------------------------------------------------------------------------------


def program_to_bytes(message: pb.ProgramDesc) -> bytes:
    """Return a program as bytes, with its format, version and checksum set.

    Raises FormatError where it is larger than `MAX_PROGRAM_BYTES`.
    """
    message.format = PROGRAM_FORMAT
    message.format_version = FORMAT_VERSION
    message.ClearField("checksum")
    try:
        data = message.SerializeToString(deterministic=True)
    except EncodeError as error:
        raise FormatError(f"program: cannot be written, got {error}") from None
    _check_size("program", data, MAX_PROGRAM_BYTES - _CHECKSUM_BYTES)
    return data + _checksum(data)


def program_from_bytes(data: bytes, max_bytes: int = MAX_PROGRAM_BYTES) -> pb.ProgramDesc:
    """Return the program of bytes from anywhere, of which at most `max_bytes` are read.

    FormatError where they are too many, foreign, truncated, damaged or of a newer format.
    """
    _check_size("program", data, max_bytes)
    if not data.startswith(_PROGRAM_START):
        raise FormatError(
            f"program: no program of opwright, got bytes that begin with {data[:18]!r}"
        )
    body = data[:-_CHECKSUM_BYTES]
    if data[-_CHECKSUM_BYTES:] != _checksum(body):
        raise FormatError(
            f"program: truncated or damaged, got {len(data)} bytes without their checksum; "
            "save it again"
        )
    message = _parse("program", pb.ProgramDesc(), data)
    check_version(message)
    return message


def check_version(message: pb.ProgramDesc) -> None:
    """Raise FormatError where a program is of a newer format."""
    if not 1 <= message.format_version <= FORMAT_VERSION:
        raise FormatError(
            f"program: format version must be at most {FORMAT_VERSION}, "
            f"got {message.format_version}; install a newer opwright"
        )


def _checksum(data: bytes) -> bytes:
    return _CHECKSUM_TAG + zlib.crc32(data).to_bytes(4, "little")


def _check_size(what: str, data: bytes, max_bytes: int) -> None:
    if len(data) > max_bytes:
        raise FormatError(f"{what}: must have at most {max_bytes} bytes, got {len(data)}")


def _parse(what: str, message: _AnyMessage, data: bytes) -> _AnyMessage:
    try:
        message.ParseFromString(data)
    except (DecodeError, TypeError) as error:
        raise FormatError(f"{what}: truncated or foreign bytes, got {error}") from None
    return message
