"""The details of a clicked operator, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from opwright import Context
from opwright.kernel import ANY
from opwright_kit.drawing.graph import BlockGraph, Node
from opwright_kit.drawing.kernels import KernelChoices
from opwright_kit.drawing.svg import node_id
from opwright_kit.drawing.times import StepTimes

if TYPE_CHECKING:
    from opwright.op import OpProto


def collect_details(
    graphs: Sequence[BlockGraph], choices: KernelChoices, times: StepTimes, context: Context
) -> dict[str, Any]:
    """Return operators by page id, the descriptions of their types, and why kernels are chosen."""
    operators: dict[str, Any] = {}
    types: dict[str, Any] = {}
    for graph in graphs:
        for number, node in enumerate(graph.nodes):
            if node.op is None:
                continue
            operators[node_id(graph.idx, node, number)] = _operator(graph, node, choices, times)
            if node.name not in types:
                package = context.ops.package_of(node.op.type).label
                types[node.name] = {**_type(node.op.definition.proto), "package": package}
    return {
        "operators": operators,
        "types": types,
        "devices": list(choices.devices),
        "explanations": [_explanation(answer) for answer in choices.found],
    }


def _operator(
    graph: BlockGraph, node: Node, choices: KernelChoices, times: StepTimes
) -> dict[str, Any]:
    op = node.op
    if op is None:
        raise ValueError(f"{node.name}: a variable is not an operator")
    blocks = op.block_attrs()
    return {
        "type": op.type,
        "index": node.index,
        "block": graph.idx,
        "text": repr(op),
        "inputs": [
            {
                "slot": read.slot,
                "name": read.name,
                "type": read.type,
                "kind": read.kind,
                "from": _source(graph, read.source),
            }
            for read in node.reads
        ],
        "outputs": [{"slot": slot, "name": name, "type": type} for slot, name, type in node.writes],
        "attrs": [
            {"name": name, "value": _shown(value), "block": blocks.get(name)}
            for name, value in op.attrs.items()
        ],
        "kernels": [choices.explain(node, device) for device in choices.devices],
        "steps": times.details(graph.idx, node.index),
    }


def _source(graph: BlockGraph, number: int) -> str:
    """Return the id of the operator that wrote a value, or an empty string for external values."""
    if number < 0 or graph.nodes[number].kind != "op":
        return ""
    return node_id(graph.idx, graph.nodes[number], number)


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_shown, value))}]"
    return repr(value)


def _type(proto: OpProto) -> dict[str, Any]:
    slots = [*proto.inputs, *proto.outputs]
    return {
        "comment": proto.comment.strip(),
        "version": proto.version,
        "slots": {slot.name: slot.comment for slot in slots},
        "attrs": {attr.name: attr.comment for attr in proto.attrs},
    }


def _explanation(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the displayed part of an explanation; kernels for other dtypes are only counted."""
    here = [found for found in answer["candidates"] if found["device"] in {answer["device"], ANY}]
    dtype = answer["dtype"]
    fitting = [found for found in here if dtype is None or found["dtype"] in {dtype, ANY}]
    return {
        "device": answer["device"],
        "dtype": answer["dtype"] or "any dtype",
        "otherwise": answer["otherwise"],
        "notes": answer["notes"],
        "n_others": len(here) - len(fitting),
        "candidates": [
            {
                "library": found["library"],
                "dtype": found["dtype"],
                "priority": found["priority"],
                "package": f"{found['package']['distribution']} {found['package']['version']}",
                "verdict": found["verdict"],
                "reason": found["reason"],
            }
            for found in fitting
        ],
    }
