"""Parses operators and programs from protobuf messages, without importing protobuf.

Importing protobuf takes longer than parsing a program. The tables below mirror
``proto/opwright/framework.proto``.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from opwright._runtime import read_message
from opwright.describe.attribute_values import AttrType, AttrValue, convert_element
from opwright.errors import FormatError

MAX_OP_PROTO_BYTES: Final = 1 << 20
"""The maximum size of an operator in bytes; usually it has a few hundred."""

MAX_PROGRAM_BYTES: Final = 256 << 20
"""A program of 100,000 operators is about 20 MB."""

PROGRAM_FORMAT: Final = "opwright.program"
FORMAT_VERSION: Final = 1
"""The format version of programs that this release writes, and the newest version that it reads."""

# A serialized ProgramDesc begins with its field `format`, and ends with its field `checksum`.
_PROGRAM_START: Final = b"\x0a" + bytes([len(PROGRAM_FORMAT)]) + PROGRAM_FORMAT.encode()
_CHECKSUM_TAG: Final = b"\x85\x7d"  # field 2000, wire type 5 (four bytes, little-endian)
CHECKSUM_BYTES: Final = len(_CHECKSUM_TAG) + 4


Message: TypeAlias = Mapping[str, Any]
"""The fields of a message that are set, by name."""

Schema: TypeAlias = dict[int, tuple[str, str, bool, Any]]


def _schema(*fields: str, **messages: Schema) -> Schema:
    """Return a table for `read_message`: ``"1 name s"``, or ``"2 names s*"`` for several values."""
    table = {}
    for field in fields:
        number, name, kind = field.split()
        table[int(number)] = (name, kind[0], kind.endswith("*"), messages.get(name))
    return table


VALUE: Final = _schema(
    *("1 i I", "2 f d", "3 s s", "4 b b", "5 ints m", "6 floats m", "7 strings m", "8 bools m"),
    *("9 block i", "10 rest i"),
    ints=_schema("1 values I*"),
    floats=_schema("1 values d*", "2 rests i*"),
    strings=_schema("1 values s*"),
    bools=_schema("1 values b*"),
)
_TYPES: Final = {VALUE[type.value][0]: type for type in AttrType}  # field numbers of VALUE

_SLOT = _schema(
    *("1 name s", "2 comment s", "3 duplicable b", "4 optional b", "5 intermediate b"),
    *("6 shape_only b", "7 dtypes s*", "8 same_as s", "9 aliases s"),
)
_ATTR = _schema(
    *("1 name s", "2 comment s", "3 type i", "4 default m", "5 min m", "6 max m"),
    *("7 min_exclusive b", "8 max_exclusive b", "9 allowed m*", "10 required b", "11 length i"),
    *("12 operand b", "13 added b"),
    **dict.fromkeys(("default", "min", "max", "allowed"), VALUE),
)
OP_PROTO: Final = _schema(
    *("1 type s", "2 comment s", "3 inputs m*", "4 outputs m*", "5 attrs m*", "6 version i"),
    *("7 dispatch s", "8 dynamic_output b"),
    inputs=_SLOT,
    outputs=_SLOT,
    attrs=_ATTR,
)
_NAMES = _schema("1 slot s", "2 names s*")
OP: Final = _schema(
    *("1 type s", "2 inputs m*", "3 outputs m*", "4 attrs m*", "5 version i"),
    inputs=_NAMES,
    outputs=_NAMES,
    attrs=_schema("1 key s", "2 value m", value=VALUE),
)
_VAR = _schema(
    *("1 name s", "2 shape m", "3 dtype s", "4 persistable b", "5 is_parameter b"),
    *("6 stop_gradient b", "7 frozen b", "8 is_data b"),
    shape=_schema("1 dims I*"),
)
PROGRAM: Final = _schema(
    *("1 format s", "2 format_version i", "3 blocks m*", "4 requires m*", "5 seed u"),
    *("6 next_stream I", "7 feeds s*", "8 fetches s*", "2000 checksum f"),
    blocks=_schema("1 idx i", "2 parent_idx i", "3 vars m*", "4 ops m*", vars=_VAR, ops=OP),
    requires=_schema("1 plugin s", "2 distribution s", "3 version s"),
)


def read_value(message: Message, who: str, expected: AttrType | None = None) -> AttrValue:
    """Return the value that an AttrValue message contains.

    Raises FormatError, with `who` as prefix, if the value is missing or not of the `expected` type.
    """
    if not message:
        raise FormatError(f"{who}: must have a value, got an empty AttrValue")
    rest = message.get("rest", 0)
    members = {name: value for name, value in message.items() if name != "rest"}
    if len(members) != 1:
        raise FormatError(f"{who}: must have one value, got an AttrValue with {len(members)}")
    ((field, value),) = members.items()
    type = _TYPES[field]
    if expected is not None and type is not expected:
        raise FormatError(f"{who}: must be {expected.type_name}, got {type.type_name}")
    if type.is_list:
        values = tuple(value.get("values", ()))
        rests = value.get("rests")
        return values if rests is None else _add_rests(values, rests, who)
    return _add_rest(value, rest, who) if rest and type is AttrType.FLOAT else value


def _add_rests(numbers: Sequence[float], rests: Sequence[int], who: str) -> tuple[float, ...]:
    if len(rests) != len(numbers):
        raise FormatError(
            f"{who}: must have a remainder for each of {len(numbers)} values, got {len(rests)}"
        )
    pairs = zip(numbers, rests, strict=True)
    return tuple(_add_rest(number, rest, who) if rest else number for number, rest in pairs)


def _add_rest(number: float, rest: int, who: str) -> int:
    """Return the sum of a double and a remainder; FormatError if no writer produces this pair."""
    whole = int(number) + rest if math.isfinite(number) else 0
    if convert_element(AttrType.FLOAT, whole) != whole or float(whole) != number:
        raise FormatError(f"{who}: must be a 64-bit integer, got {number!r} + {rest}")
    return whole


# -- interfaces of operators -----------------------------------------------------------------------


def read_op_proto(data: bytes) -> dict[str, Any]:
    """Parse the message of an OpProto; return the arguments of the OpProto.

    Slots and attributes are also returned as arguments; rules are not checked. Raises FormatError
    if there are too many bytes, they are not such a message, or a value has the wrong type.
    """
    check_size("operator", data, MAX_OP_PROTO_BYTES)
    message = _read("operator", data, OP_PROTO)
    who = message.get("type", "")
    return {
        "type": who,
        "comment": message.get("comment", ""),
        "inputs": [_slot_fields(slot) for slot in message.get("inputs", ())],
        "outputs": [_slot_fields(slot) for slot in message.get("outputs", ())],
        "attrs": [_attr_fields(attr, who) for attr in message.get("attrs", ())],
        "version": message.get("version", 1) or 1,
        "dispatch": message.get("dispatch") or None,
        "dynamic_output": message.get("dynamic_output", False),
    }


def _slot_fields(message: Message) -> dict[str, Any]:
    texts = {name: message.get(name) or None for name in ("same_as", "aliases")}
    dtypes = tuple(message.get("dtypes", ()))
    return {"name": "", "comment": "", **message, **texts, "dtypes": dtypes}


def _attr_fields(message: Message, op_type: str) -> dict[str, Any]:
    who = f"{op_type}: attribute {message.get('name', '')!r}"
    try:
        type = AttrType(message.get("type", 0))
    except ValueError:
        raise FormatError(
            f"{who}: must have a known type, got type {message.get('type', 0)}"
        ) from None
    fields = {"name": "", "comment": "", **message, "type": type}
    fields["length"] = message.get("length", 1) or 1
    for name, expected in (("default", type), ("min", type.element), ("max", type.element)):
        if name in message:
            fields[name] = read_value(message[name], who, expected)
    allowed = message.get("allowed", ())
    fields["allowed"] = tuple(read_value(value, who, type.element) for value in allowed)
    return fields


# -- operators of a program ------------------------------------------------------------------------


def read_op(message: Message) -> tuple[str, int, dict[str, Any]]:
    """Return the type, version and description of one operator of a program.

    The description has ``"inputs"`` and ``"outputs"`` by slot, and ``"attrs"``, sorted by name.
    """
    who = message.get("type", "")
    values = {entry.get("key", ""): entry.get("value", {}) for entry in message.get("attrs", ())}
    if len(values) != len(message.get("attrs", ())):
        raise FormatError(f"{who}: an attribute must be written once, got a duplicate")
    attrs = {
        name: read_value(values[name], f"{who}: attribute {name!r}") for name in sorted(values)
    }
    sides = {side: _read_slots(message.get(side, ()), who) for side in ("inputs", "outputs")}
    return who, message.get("version", 1) or 1, {**sides, "attrs": attrs}


def _read_slots(slots: Sequence[Message], who: str) -> dict[str, tuple[str, ...]]:
    by_slot: dict[str, tuple[str, ...]] = {}
    for message in slots:
        slot = message.get("slot", "")
        if slot in by_slot:
            raise FormatError(f"{who}: a slot must be written once, got {slot!r} twice")
        if not message.get("names"):
            raise FormatError(f"{who}: a slot must contain a variable, got none in {slot!r}")
        by_slot[slot] = tuple(message["names"])
    return by_slot


# -- programs --------------------------------------------------------------------------------------


def read_program(data: bytes, max_bytes: int = MAX_PROGRAM_BYTES) -> Message:
    """Parse a program from at most `max_bytes` untrusted bytes.

    Raises FormatError for bytes that are too many, foreign, truncated, damaged or of a newer
    format.
    """
    check_size("program", data, max_bytes)
    if not data.startswith(_PROGRAM_START):
        raise FormatError(
            f"program: not a program of opwright, got bytes that begin with {data[:18]!r}"
        )
    body = data[:-CHECKSUM_BYTES]
    if data[-CHECKSUM_BYTES:] != checksum_field(body):
        raise FormatError(
            f"program: truncated or damaged, got {len(data)} bytes without their checksum; "
            "save it again"
        )
    return parse_program(data)


def parse_program(data: bytes) -> Message:
    """Parse a program from the bytes of a message, without checking its checksum.

    Raises FormatError if the bytes are not a program, or of a newer format.
    """
    message = _read("program", data, PROGRAM)
    if message.get("format") != PROGRAM_FORMAT:
        raise FormatError(
            f"program: format must be {PROGRAM_FORMAT!r}, got {message.get('format', '')!r}"
        )
    version = message.get("format_version", 0)
    if not 1 <= version <= FORMAT_VERSION:
        raise FormatError(
            f"program: format version must be at most {FORMAT_VERSION}, got {version}; "
            "install a newer opwright"
        )
    return message


def checksum_field(data: bytes) -> bytes:
    """Return the checksum field of a program; it follows the other fields, `data`."""
    return _CHECKSUM_TAG + zlib.crc32(data).to_bytes(4, "little")


def check_size(what: str, data: bytes, max_bytes: int) -> None:
    """Raise FormatError if there are too many bytes."""
    if len(data) > max_bytes:
        raise FormatError(f"{what}: must have at most {max_bytes} bytes, got {len(data)}")


def _read(what: str, data: bytes, schema: Schema) -> Message:
    try:
        return read_message(data, schema)
    except ValueError as error:
        raise FormatError(f"{what}: truncated or foreign bytes, got {error}") from None
