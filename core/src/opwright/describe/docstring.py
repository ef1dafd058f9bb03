"""Generates the docstring of an operator function from its OpProto."""

from __future__ import annotations

import textwrap

from opwright.describe.definition import NoGradient, OpDefinition
from opwright.describe.op_proto import AttrProto, OpProto, VarProto

_WIDTH = 96


def make_docstring(definition: OpDefinition) -> str:
    """Return a numpydoc docstring with comment, parameters, defaults, ranges and returns."""
    proto = definition.proto
    parts = [textwrap.fill(proto.comment, _WIDTH), ""]
    parts += ["Parameters", "----------"]
    for slot in proto.inputs:
        parts += _entry(slot.name, _slot_type(slot, proto), slot.comment)
    for attr in proto.attrs:
        parts += _entry(attr.name, describe_attribute(attr), attr.comment)
    if returns_on_request(proto):
        hidden = ", ".join(repr(slot.name) for slot in proto.outputs)
        parts += _entry("returns", "str or list of str, optional", f"the outputs, of {hidden}")
    parts += ["", "Returns", "-------"]
    for slot in proto.outputs:
        if not slot.intermediate:
            parts += _entry(slot.name, _slot_type(slot, proto), slot.comment)
    parts += ["", "Notes", "-----", *_notes(definition)]
    return "\n".join(parts)


def returns_on_request(proto: OpProto) -> bool:
    """Return whether some outputs are returned only if ``returns`` names them."""
    hidden = any(slot.intermediate or slot.optional for slot in proto.outputs)
    return hidden and "returns" not in {*proto.input_slots, *proto.attr_protos}


def _entry(name: str, type_text: str, comment: str) -> list[str]:
    body = textwrap.fill(comment, _WIDTH - 4)
    return [f"{name} : {type_text}", textwrap.indent(body, "    ")]


def _slot_type(slot: VarProto, proto: OpProto) -> str:
    kind = "list of arrays or Variables" if slot.duplicable else "array or Variable"
    words = [kind, *([" | ".join(slot.dtypes)] if slot.dtypes else [])]
    if slot.same_as is not None:
        words.append(f"dtype of {slot.same_as}")
    if slot.aliases is not None:
        words.append(f"the variable of {slot.aliases}")
    if slot.optional and slot in proto.inputs:
        words.append("optional")
    return ", ".join(words)


def describe_attribute(attr: AttrProto) -> str:
    """Return type, range and default of an attribute: ``float, in (0, inf), default 1.0``."""
    words = [attr.type_name]
    allowed = attr.describe_range()
    if allowed:
        words.append(allowed if attr.allowed else f"in {allowed}")
    if attr.operand:
        words.append("shape operand")
    if attr.length > 1:
        words.append(f"one number stands for {attr.length}")
    if attr.has_default:
        default = list(attr.default) if isinstance(attr.default, tuple) else attr.default
        words.append(f"default {default!r}")
    else:
        words.append("required" if attr.required else "optional")
    return ", ".join(words)


def _notes(definition: OpDefinition) -> list[str]:
    gradient = definition.gradient
    if isinstance(gradient, NoGradient):
        text = f"Not differentiable: {gradient.reason}."
    elif gradient is None and definition.body is None:
        text = "Without a gradient rule."
    else:
        text = "Differentiable."
    lines = [textwrap.fill(text, _WIDTH)]
    if definition.proto.dynamic_output:
        lines.append("The shape of the result depends on values.")
    return lines
