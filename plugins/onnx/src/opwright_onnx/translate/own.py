"""Nodes in the domains ``opwright.PLUGIN``: opwright operators without an ONNX counterpart.

Such a node has the attributes of the operator. The inputs and outputs of the node are the variables
of the slots in the order of the OpProto. If a slot is absent or has several variables, the
attributes ``_inputs`` and ``_outputs`` name the slot of each input and output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

import opwright as ow
from opwright.op import INT_MIN, AttrProto, AttrType, OpProto
from opwright.vocabulary import STEP_SLOT
from opwright_onnx.errors import ModelError
from opwright_onnx.messages import AttributeProto, AttributeType
from opwright_onnx.translate.node import PREFIX, Node
from opwright_onnx.translate.translator import Translator
from opwright_onnx.translate.values import Value

INPUTS: Final = "_inputs"
OUTPUTS: Final = "_outputs"
MARK: Final = INT_MIN
"""Marks the first element that an input named like the attribute provides."""

MORE: Final = INT_MIN + 1
"""Marks each further element that the same input provides."""

_KINDS: Final = {
    AttrType.INT: AttributeType.INT,
    AttrType.BOOL: AttributeType.INT,
    AttrType.STRING: AttributeType.STRING,
    AttrType.INTS: AttributeType.INTS,
    AttrType.BOOLS: AttributeType.INTS,
    AttrType.STRINGS: AttributeType.STRINGS,
}


def name_own(op_type: str) -> tuple[str, str]:
    """Return the node domain and name of an operator type."""
    plugin, _, name = op_type.rpartition(".")
    return PREFIX + (plugin or "std"), name


def find_own(domain: str, name: str) -> str:
    """Return the operator type of a node."""
    plugin = domain.removeprefix(PREFIX)
    return name if plugin == "std" else f"{plugin}.{name}"


def write_attribute(attr: AttrProto, value: Any) -> AttributeProto:
    """Return a node attribute; floats that float32 cannot represent are stored as float64."""
    from onnx import helper, numpy_helper  # needed only for writing

    if attr.type.element is AttrType.FLOAT:
        numbers = np.asarray(value, np.float64)
        with np.errstate(over="ignore"):
            narrow = numbers.astype(np.float32)
        if not np.array_equal(narrow.astype(np.float64), numbers, equal_nan=True):
            return helper.make_attribute(attr.name, numpy_helper.from_array(numbers))
        kind = AttributeType.FLOATS if attr.type.is_list else AttributeType.FLOAT
        return helper.make_attribute(attr.name, narrow.tolist(), attr_type=kind)
    plain = [_as_plain(v) for v in value] if attr.type.is_list else _as_plain(value)
    return helper.make_attribute(attr.name, plain, attr_type=_KINDS[attr.type])


def _as_plain(value: Any) -> Any:
    return int(value) if isinstance(value, bool) else value


def read_own(t: Translator, n: Node) -> list[Value]:
    """Append the operator of a node and return its output variables."""
    op_type = find_own(n.domain, n.op_type)
    proto = ow.op_proto(op_type)
    attrs = dict(n.attrs)
    n_given = [value for value in n.inputs if value is not None]
    inputs = _group(attrs.pop(INPUTS, [s.name for s in proto.inputs]), n_given)
    slots = attrs.pop(OUTPUTS, [s.name for s in proto.outputs][: n.n_outputs])
    if len(slots) != n.n_outputs:
        raise ModelError(
            f"{OUTPUTS} must name a slot for each of {n.n_outputs} outputs, got {slots}"
        )
    named = {name: _read(proto, name, value) for name, value in attrs.items()}
    for name in proto.operands:
        if name in inputs:
            named[name] = _fill(proto.attr(name), named.get(name), inputs.pop(name), t)
    bound = _bind(t, proto, inputs)
    outputs: dict[str, list[str]] = {}
    for slot in slots:
        alias = proto.output(slot).aliases
        name = bound[alias][0].name if alias else t.program.unique_name(op_type)
        outputs.setdefault(slot, []).append(name)
    t.block.append_op(op_type, bound, outputs, named)
    found = {slot: iter(names) for slot, names in outputs.items()}
    results = [(slot, t.block.var(next(found[slot]))) for slot in slots]
    # In-place results are copied, since the walk renames results to their names in the model.
    return [t.op("assign", v) if proto.output(slot).aliases else v for slot, v in results]


def _group(slots: Any, values: Sequence[Value]) -> dict[str, list[Value]]:
    if not isinstance(slots, list) or len(slots) < len(values):
        raise ModelError(f"{INPUTS} must name a slot for each of {len(values)} inputs, got {slots}")
    groups: dict[str, list[Value]] = {}
    for slot, value in zip(slots, values):
        groups.setdefault(slot, []).append(value)
    return groups


def _bind(
    t: Translator, proto: OpProto, inputs: Mapping[str, Sequence[Value]]
) -> dict[str, list[ow.Variable]]:
    """Return variables for the inputs; inputs that are overwritten get separate memory."""
    written = {STEP_SLOT, *(slot.aliases for slot in proto.outputs)}
    bound: dict[str, list[ow.Variable]] = {}
    for slot, values in inputs.items():
        owned = [t.own(v) for v in values] if slot in written else values
        bound[slot] = [t.variable(v) for v in owned]
    return bound


def _read(proto: OpProto, name: str, value: Any) -> Any:
    kind = proto.attr(name).type
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if kind.element is AttrType.BOOL:
        return [bool(v) for v in value] if kind.is_list else bool(value)
    return value


def _fill(attr: AttrProto, value: Any, given: Sequence[Value], t: Translator) -> Any:
    """Replace marked elements of an attribute by the variables that provide them."""
    variables = iter([t.variable(v) for v in given])
    if not attr.type.is_list:
        return next(variables)
    return [next(variables) if v == MARK else v for v in value if v != MORE]
