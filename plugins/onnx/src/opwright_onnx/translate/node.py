"""A graph node with its input values, and its attributes including the schema defaults."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from opwright_onnx.errors import ModelError, UnsupportedError
from opwright_onnx.messages import AttributeProto, AttributeType, NodeProto
from opwright_onnx.translate.schemas import find_defaults, find_schema
from opwright_onnx.translate.tensors import read_sparse, read_tensor

PREFIX: Final = "opwright."
"""The domain prefix of opwright operators; see `opwright_onnx.translate.own`."""


class Node:
    """The arguments of a row.

    Attributes
    ----------
    proto : NodeProto
    domain : str
        Empty for ONNX's own operators.
    inputs : list of values
        Variables, arrays of known elements, lists of these for sequences, None for absent inputs.
    attrs : dict
        Numbers, strings, lists, arrays and graphs by name.
    opset : int
        The version of the domain.
    """

    __slots__ = ("attrs", "domain", "inputs", "opset", "proto")

    def __init__(
        self, proto: NodeProto, inputs: list[Any], attrs: dict[str, Any], opset: int
    ) -> None:
        self.proto = proto
        self.domain = "" if proto.domain == "ai.onnx" else proto.domain
        self.inputs = inputs
        self.attrs = attrs
        self.opset = opset

    @property
    def op_type(self) -> str:
        """The name of the operator."""
        return str(self.proto.op_type)

    @property
    def n_outputs(self) -> int:
        """The number of outputs of the node, without trailing absent outputs."""
        return len(self.proto.output)

    def wants(self, index: int) -> bool:
        """Return whether an output has a name, so its value is needed."""
        return index < len(self.proto.output) and bool(self.proto.output[index])

    def attr(self, name: str, default: Any = None) -> Any:
        """Return an attribute, or `default` if it is absent."""
        return self.attrs.get(name, default)


def describe_node(proto: NodeProto) -> str:
    """Describe a node for error messages."""
    domain = f"{proto.domain}::" if proto.domain not in ("", "ai.onnx") else ""
    name = proto.name or next(filter(None, proto.output), "")
    return f"node {name!r} ({domain}{proto.op_type})"


def read_attributes(proto: NodeProto, opset: int, folder: str | None) -> dict[str, Any]:
    """Return the attributes of a node, with the defaults of its schema."""
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    attrs = dict(_read_defaults(proto.op_type, domain, opset))
    for attribute in proto.attribute:
        attrs[attribute.name] = read_attribute(attribute, folder)
    return attrs


def read_attribute(attribute: AttributeProto, folder: str | None) -> Any:
    """Return the value of an attribute."""
    read = _READERS.get(attribute.type)
    if read is None:
        raise UnsupportedError(f"attribute {attribute.name!r}: unknown kind, got {attribute.type}")
    return read(attribute, folder)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ModelError(f"a string must be UTF-8, got {data!r}") from None


_READERS: Final[dict[int, Callable[[AttributeProto, str | None], Any]]] = {
    AttributeType.INT: lambda a, _: a.i,
    AttributeType.FLOAT: lambda a, _: a.f,
    AttributeType.GRAPH: lambda a, _: a.g,
    AttributeType.TYPE_PROTO: lambda a, _: a.tp,
    AttributeType.INTS: lambda a, _: list(a.ints),
    AttributeType.FLOATS: lambda a, _: list(a.floats),
    AttributeType.STRING: lambda a, _: _text(a.s),
    AttributeType.STRINGS: lambda a, _: [_text(item) for item in a.strings],
    AttributeType.TENSOR: lambda a, folder: read_tensor(a.t, folder),
    AttributeType.TENSORS: lambda a, folder: [read_tensor(t, folder) for t in a.tensors],
    AttributeType.SPARSE_TENSOR: lambda a, folder: read_sparse(a.sparse_tensor, folder),
}


@lru_cache(maxsize=1024)
def _read_defaults(op_type: str, domain: str, opset: int) -> tuple[tuple[str, Any], ...]:
    known = find_defaults(op_type, domain, opset)
    if known is not None:
        return tuple(known.items())
    schema = find_schema(op_type, domain, opset)
    if schema is None:
        return ()
    found = []
    for name, attribute in schema.attributes.items():
        default = attribute.default_value
        if default.name and default.type != AttributeType.UNDEFINED:
            found.append((name, read_attribute(default, None)))
    return tuple(found)
