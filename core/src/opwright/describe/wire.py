"""Converts plain objects to protobuf messages; `opwright.describe.wire_reading` reads their bytes.

Importing this module imports protobuf (11 ms), so other modules import it inside the functions that
need it. Besides this module only `opwright.program.serialize` touches messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from google.protobuf.message import EncodeError

from opwright import framework_pb2 as pb
from opwright.describe.attribute_values import AttrType, AttrValue, convert_value
from opwright.describe.wire_reading import (
    CHECKSUM_BYTES,
    FORMAT_VERSION,
    MAX_PROGRAM_BYTES,
    PROGRAM_FORMAT,
    check_size,
    checksum_field,
)
from opwright.errors import FormatError

if TYPE_CHECKING:
    from opwright.describe.op_proto import AttrProto, OpProto, VarProto

# The members of an AttrValue bear the numbers of the types.
_MEMBERS: Final = pb.AttrValue.DESCRIPTOR.oneofs_by_name["value"].fields
_FIELDS: Final = {AttrType(field.number): field.name for field in _MEMBERS}
# -- attributes ------------------------------------------------------------------------------------


def write_value(message: pb.AttrValue, type: AttrType, value: AttrValue, who: str) -> None:
    """Write an attribute's value into a message; FormatError with `who` for another type."""
    converted = convert_value(type, value)
    if converted is None:
        raise FormatError(f"{who}: must be {type.type_name} to be written, got {value!r}")
    try:
        if type.is_list:
            values = getattr(message, _FIELDS[type])
            values.SetInParent()  # sets an empty list, too
            values.values.extend(converted)
            if type is AttrType.FLOATS and any(rests := list(map(_rest_of, converted))):
                values.rests.extend(rests)
        else:
            setattr(message, _FIELDS[type], converted)
            if type is AttrType.FLOAT:
                message.rest = _rest_of(converted)
    except (ValueError, UnicodeEncodeError) as error:
        raise FormatError(f"{who}: cannot be written, got {value!r}: {error}") from None


def _rest_of(value: float) -> int:
    """Return the difference between a whole number and the nearest double."""
    return value - int(float(value)) if isinstance(value, int) else 0


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


def _slot_to_message(slot: VarProto) -> pb.VarProto:
    return pb.VarProto(
        **{name: getattr(slot, name) for name in pb.VarProto.DESCRIPTOR.fields_by_name}
    )


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
        operand=attr.operand,
        added=attr.added,
    )
    who = f"{op_type}: attribute {attr.name!r}"
    for field, type in (("default", attr.type), ("min", element), ("max", element)):
        if (value := getattr(attr, field)) is not None:
            write_value(getattr(message, field), type, value, who)
    for value in attr.allowed:
        write_value(message.allowed.add(), element, value, who)
    return message


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
    check_size("program", data, MAX_PROGRAM_BYTES - CHECKSUM_BYTES)
    return data + checksum_field(data)
