"""``opwright ops``: the list of operators, or one operator as a page."""

from __future__ import annotations

import argparse
import json
import textwrap
from typing import Any, Final

from opwright.context import Context, current_context
from opwright.definition import NoGradient, OpDefinition
from opwright.gradient_rules import GradOp
from opwright.proto import AttrProto, OpProto, VarProto
from opwright.tables import align

_PAGE_WIDTH: Final = 88


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the operator type, and the switch for helpers."""
    parser.add_argument("type", nargs="?", help="show this operator as a page")
    parser.add_argument("--all", action="store_true", help="helpers of gradients too")


def run(args: argparse.Namespace) -> int:
    """Print the list or the page."""
    context = current_context()
    if args.type is None:
        _print_list(context, args)
    elif args.json:
        print(json.dumps(proto_to_json(context.ops.get(args.type).proto), indent=2))
    else:
        print(format_page(args.type, context))
    return 0


def _print_list(context: Context, args: argparse.Namespace) -> None:
    """Print what the registry knows without importing any definition."""
    types = context.ops.types(all=args.all)
    devices = {type: context.kernels.devices_of(type) for type in types}
    packages = {type: context.ops.package_of(type) for type in types}
    if args.json:
        items = [
            {
                "type": type,
                "package": packages[type]._asdict(),
                "devices": devices[type],
                "hidden": context.ops.is_hidden(type),
            }
            for type in types
        ]
        print(json.dumps(items, indent=2))
        return
    rows = [(t, packages[t].label, ", ".join(devices[t]) or "-") for t in types]
    print("\n".join(align([("operator", "distribution", "kernels on"), *rows], indent="")))
    print(f"{len(types)} operators; to see one: opwright ops NAME")
    for line in context.report.lines():
        print(line)


def format_page(type: str, context: Context) -> str:
    """Return one operator as a page: its comment, slots, attributes, gradient and kernels."""
    definition = context.ops.get(type)
    proto = definition.proto
    parts = [
        f"{proto.type}, version {proto.version}, from {context.ops.package_of(type).label}",
        "",
        *_wrap(proto.comment),
        *_section("inputs", [_slot_row(slot, proto) for slot in proto.inputs]),
        *_section("outputs", [_slot_row(slot, proto) for slot in proto.outputs]),
        *_section("attributes", [_attr_row(attr) for attr in proto.attrs]),
        "",
        f"gradient: {_describe_gradient(definition)}",
        *_section("kernels", _kernel_rows(type, context)),
    ]
    return "\n".join(parts)


def _wrap(text: str) -> list[str]:
    """Return the lines of a comment, those that are too long for a terminal broken."""
    lines = text.strip().splitlines()
    return [part for line in lines for part in textwrap.wrap(line, _PAGE_WIDTH) or [""]]


def _section(title: str, rows: list[tuple[str, ...]]) -> list[str]:
    return ["", title, *align(rows)] if rows else []


def _slot_row(slot: VarProto, proto: OpProto) -> tuple[str, ...]:
    traits = [name for name in ("duplicable", "optional", "intermediate") if getattr(slot, name)]
    if slot.shape_only:
        traits.append("shape only")
    if slot.same_as is not None:
        traits.append(f"dtype of {slot.same_as}")
    if slot.dtypes:
        traits.append(" | ".join(slot.dtypes))
    if slot.aliases is not None:
        traits.append(f"the variable of {slot.aliases}")
    if slot.name == proto.dispatch_slot and slot in proto.inputs:
        traits.append("selects the kernel")
    return slot.name, slot.comment, ", ".join(traits)


def _attr_row(attr: AttrProto) -> tuple[str, ...]:
    if attr.required:
        default = "required"
    else:
        default = f"= {attr.default!r}" if attr.has_default else "may be absent"
    return attr.name, f"{attr.type_name} {attr.describe_range()}".strip(), default, attr.comment


def _describe_gradient(definition: OpDefinition) -> str:
    rule = definition.gradient
    if isinstance(rule, NoGradient):
        return f"none, {rule.reason}"
    if isinstance(rule, GradOp):
        return f"the operator {rule.type}, which reads {', '.join(rule.needs) or 'shapes only'}"
    if rule is not None:
        return "written in other operators"
    return "through its body" if definition.body is not None else "none"


def _kernel_rows(type: str, context: Context) -> list[tuple[str, ...]]:
    rows: dict[tuple[str, ...], list[str]] = {}
    for entry in context.kernels.sort(context.kernels.entries(type)):
        key = (entry.device, entry.library, f"priority {entry.priority}", entry.package.label)
        rows.setdefault(key, []).append(entry.dtype)
    return [(*key, " ".join(dtypes)) for key, dtypes in rows.items()]


def proto_to_json(proto: OpProto) -> dict[str, Any]:
    """Return an OpProto as plain data."""
    slot_fields = (
        *("name", "comment", "duplicable", "optional", "intermediate", "shape_only"),
        *("dtypes", "same_as", "aliases"),
    )
    attr_fields = (
        *("name", "comment", "default", "min", "max", "min_exclusive", "max_exclusive"),
        *("allowed", "required"),
    )

    def fields(item: object, names: tuple[str, ...]) -> dict[str, Any]:
        return {name: getattr(item, name) for name in names}

    return {
        **fields(proto, ("type", "comment", "version", "dispatch_slot", "dynamic_output")),
        "inputs": [fields(slot, slot_fields) for slot in proto.inputs],
        "outputs": [fields(slot, slot_fields) for slot in proto.outputs],
        "attrs": [{**fields(a, attr_fields), "type": a.type_name} for a in proto.attrs],
    }
