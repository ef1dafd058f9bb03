"""ONNX messages as plain objects, since importing protobuf takes longer than most loads.

The objects have the same attributes as the ``onnx`` classes; the translation accepts both. A file
that opwright's reader refuses is read by protobuf. The fields are numbered and named as in
``onnx.proto``.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final

from opwright._runtime import read_message

if TYPE_CHECKING:
    from onnx import (
        AttributeProto,
        FunctionProto,
        GraphProto,
        ModelProto,
        NodeProto,
        SparseTensorProto,
        TensorProto,
        TypeProto,
        ValueInfoProto,
    )

_FIELDS: Final = {
    "ModelProto": """1 ir_version I; 2 producer_name s; 3 producer_version s; 7 graph m GraphProto;
        8 opset_import m* OperatorSetIdProto; 14 metadata_props m* Entry;
        25 functions m* FunctionProto""",
    "GraphProto": """1 node m* NodeProto; 2 name s; 5 initializer m* TensorProto;
        11 input m* ValueInfoProto; 12 output m* ValueInfoProto;
        15 sparse_initializer m* SparseTensorProto""",
    "FunctionProto": """1 name s; 4 input s*; 5 output s*; 6 attribute s*; 7 node m* NodeProto;
        9 opset_import m* OperatorSetIdProto; 10 domain s; 11 attribute_proto m* AttributeProto;
        13 overload s""",
    "NodeProto": """1 input s*; 2 output s*; 3 name s; 4 op_type s; 5 attribute m* AttributeProto;
        7 domain s; 8 overload s""",
    "AttributeProto": """1 name s; 2 f g; 3 i I; 4 s y; 5 t m TensorProto; 6 g m GraphProto;
        7 floats g*; 8 ints I*; 9 strings y*; 10 tensors m* TensorProto; 11 graphs m* GraphProto;
        14 tp m TypeProto; 20 type i; 21 ref_attr_name s; 22 sparse_tensor m SparseTensorProto""",
    # Packed numbers stay bytes, since a Python list would be many times larger.
    "TensorProto": """1 dims I*; 2 data_type i; 4 float_data y*; 5 int32_data y*; 6 string_data y*;
        7 int64_data y*; 8 name s; 9 raw_data y; 10 double_data y*; 11 uint64_data y*;
        13 external_data m* Entry; 14 data_location i""",
    "SparseTensorProto": "1 values m TensorProto; 2 indices m TensorProto; 3 dims I*",
    "ValueInfoProto": "1 name s; 2 type m TypeProto",
    "TypeProto": """1 tensor_type m TensorType; 4 sequence_type m ElementType;
        5 map_type m ElementType; 8 sparse_tensor_type m TensorType; 9 optional_type m ElementType
        """,
    "TensorType": "1 elem_type i; 2 shape m Shape",
    "ElementType": "1 elem_type m TypeProto",
    "Shape": "1 dim m* Dimension",
    "Dimension": "1 dim_value I; 2 dim_param s",
    "OperatorSetIdProto": "1 domain s; 2 version I",
    "Entry": "1 key s; 2 value s",
}
"""The number, name and kind of the fields of each message, in the form `read_message` uses."""

_DEFAULTS: Final = {"s": "", "y": b"", "g": 0.0}


class DataType(IntEnum):
    """The dtypes of tensors."""

    UNDEFINED = 0
    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    STRING = 8
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    COMPLEX64 = 14
    COMPLEX128 = 15
    BFLOAT16 = 16
    FLOAT8E4M3FN = 17
    FLOAT8E4M3FNUZ = 18
    FLOAT8E5M2 = 19
    FLOAT8E5M2FNUZ = 20
    UINT4 = 21
    INT4 = 22
    FLOAT4E2M1 = 23
    FLOAT8E8M0 = 24
    UINT2 = 25
    INT2 = 26
    FLOAT6E2M3 = 27
    FLOAT6E3M2 = 28


class AttributeType(IntEnum):
    """The kinds of attributes."""

    UNDEFINED = 0
    FLOAT = 1
    INT = 2
    STRING = 3
    TENSOR = 4
    GRAPH = 5
    FLOATS = 6
    INTS = 7
    STRINGS = 8
    TENSORS = 9
    GRAPHS = 10
    SPARSE_TENSOR = 11
    SPARSE_TENSORS = 12
    TYPE_PROTO = 13
    TYPE_PROTOS = 14


EXTERNAL: Final = 1
"""The `data_location` of a tensor that is stored in another file."""


class Message:
    """A message; its attributes are the set fields, and unset fields have protobuf's defaults."""

    schema: ClassVar[dict[int, tuple[str, str, bool, Any]]]
    inner: ClassVar[dict[str, type[Message]]]
    """The classes of fields that are messages."""

    def __init__(self, **fields: Any) -> None:
        vars(self).update(fields)

    def HasField(self, name: str) -> bool:  # noqa: N802 - the name that protobuf gives it
        """Return whether a field is set."""
        return name in vars(self)

    def WhichOneof(self, _group: str) -> str | None:  # noqa: N802 - the name that protobuf gives it
        """Return the name of the set field of a type message."""
        return next(iter(vars(self)), None)

    def SerializeToString(self) -> bytes:  # noqa: N802 - the name that protobuf gives it
        """Serialize the message."""
        parts = []
        for number, (name, kind, is_repeated, _) in self.schema.items():
            if name in vars(self):
                value = vars(self)[name]
                for one in value if is_repeated else (value,):
                    parts.append(_write_field(number, kind, one))
        return b"".join(parts)


def _make_classes() -> dict[str, type[Message]]:
    classes: dict[str, type[Message]] = {
        name: type(name, (Message,), {"schema": {}, "inner": {}}) for name in _FIELDS
    }
    for name, fields in _FIELDS.items():
        made = classes[name]
        for field in fields.split(";"):
            number, key, kind, *inner = field.split()
            kept = classes[inner[0]] if inner else None
            made.schema[int(number)] = (key, kind[0], kind.endswith("*"), kept and kept.schema)
            if kept is not None:
                made.inner[key] = kept
            absent = kept() if kept is not None else _DEFAULTS.get(kind, 0)
            setattr(made, key, () if kind.endswith("*") else absent)
    return classes


def read(name: str, data: bytes) -> Any:
    """Parse a message, such as a ``"ModelProto"``; ValueError if only protobuf might accept it."""
    made = _CLASSES[name]
    return _build(made, read_message(data, made.schema))


def _build(made: type[Message], fields: dict[str, Any]) -> Message:
    """Return a message whose attributes are the dict `fields`; the dict may be modified."""
    for key in made.inner.keys() & fields.keys():
        inner, value = made.inner[key], fields[key]
        many = value.__class__ is list
        fields[key] = [_build(inner, one) for one in value] if many else _build(inner, value)
    message = made.__new__(made)
    message.__dict__ = fields
    return message


def as_onnx(tensor: Any) -> Any:
    """Convert a tensor to the class of the onnx package."""
    if not isinstance(tensor, Message):
        return tensor
    from onnx import TensorProto as Theirs  # few tensors need the package

    return Theirs.FromString(tensor.SerializeToString())


def fields_of(message: Any) -> dict[str, Any]:
    """Return the set fields of a message by name."""
    if isinstance(message, Message):
        return dict(vars(message))
    return {field.name: value for field, value in message.ListFields()}


def _write_field(number: int, kind: str, value: Any) -> bytes:
    if kind in "Ii":
        return write_varint(number << 3) + write_varint(value % 2**64)
    if kind == "g":
        return write_varint(number << 3 | 5) + struct.pack("<f", value)
    if kind == "m":
        value = value.SerializeToString()
    return write_bytes(number, value.encode() if kind == "s" else value)


def write_bytes(number: int, content: bytes) -> bytes:
    """Serialize a field that contains bytes."""
    return write_varint(number << 3 | 2) + write_varint(len(content)) + content


def write_varint(number: int) -> bytes:
    """Encode a number as a protobuf varint."""
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    parts.append(number)
    return bytes(parts)


_CLASSES: Final = _make_classes()

if not TYPE_CHECKING:
    AttributeProto = _CLASSES["AttributeProto"]
    FunctionProto = _CLASSES["FunctionProto"]
    GraphProto = _CLASSES["GraphProto"]
    ModelProto = _CLASSES["ModelProto"]
    NodeProto = _CLASSES["NodeProto"]
    SparseTensorProto = _CLASSES["SparseTensorProto"]
    TensorProto = _CLASSES["TensorProto"]
    TypeProto = _CLASSES["TypeProto"]
    ValueInfoProto = _CLASSES["ValueInfoProto"]

__all__ = [
    "EXTERNAL",
    "AttributeProto",
    "AttributeType",
    "DataType",
    "FunctionProto",
    "GraphProto",
    "ModelProto",
    "NodeProto",
    "SparseTensorProto",
    "TensorProto",
    "TypeProto",
    "ValueInfoProto",
    "as_onnx",
    "fields_of",
    "read",
    "write_varint",
]
