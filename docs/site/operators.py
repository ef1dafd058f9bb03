"""A page for each operator, made from its OpProto, and their index by name space."""

from __future__ import annotations

from typing import Any

from curves import draw_operator
from formulas import find_formulas, typeset
from markup import code, escape, table
from timings import describe_timings, load_timings
from timings import make_page as make_timings_page

from opwright import Context, current_context
from opwright.op import (
    AttrProto,
    GradOp,
    NoGradient,
    OpDefinition,
    OpProto,
    VarProto,
)
from opwright_kit.commands.page import describe_slot

STANDARD = "Standard operators"
LONGEST_SUMMARY = 110
INTRODUCTION = """\
Each is a function of `opwright.ops`, for arrays and for variables of a program. These pages are
made from what the operators say of themselves, as `opwright ops NAME` is.
[What they take beside PyTorch](speed.md) is measured."""


def make_pages() -> dict[str, str]:
    """Return the pages by their path in the site."""
    context = current_context()
    types = [type for type in context.ops.types() if not context.ops.get(type).plan_only]
    timings = load_timings()
    pages = {f"operators/{type}.md": make_page(type, context, timings) for type in types}
    pages["operators/speed.md"] = make_timings_page(timings)
    return {**pages, "operators/index.md": _make_index(types, context)}


def make_page(type: str, context: Context, timings: dict[str, Any]) -> str:
    """Return one operator as a page of Markdown."""
    definition = context.ops.get(type)
    proto = definition.proto
    package = context.ops.package_of(type).label
    parts = [
        "---\norphan: true\n---",  # hundreds of them make no list for a side bar
        f"# {type}",
        code("python", _signature(proto)),
        typeset(find_formulas(proto)),
        _paragraphs(proto.comment),
        draw_operator(proto, context),
        _section("Inputs", table(("slot", "what", ""), (_slot(s, proto) for s in proto.inputs))),
        _section("Outputs", table(("slot", "what", ""), (_slot(s, proto) for s in proto.outputs))),
        _section(
            "Attributes",
            table(("attribute", "type", "default", "range", "what"), map(_attr, proto.attrs)),
        ),
        _section("Gradient", _describe_gradient(definition)),
        _section("Kernels", _kernels(type, context)),
        _section("Measured", describe_timings(type, timings)),
        f"From `{package}`, version {proto.version} of the operator.",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _signature(proto: OpProto) -> str:
    slots = [f"{slot.name}=None" if slot.optional else slot.name for slot in proto.inputs]
    attrs = []
    for attr in sorted(proto.attrs, key=lambda attr: not attr.required):
        default = "" if attr.required else f"={attr.default!r}"
        attrs.append(f"{attr.name}{default}")
    marker = ["*"] if attrs else []
    return f"opwright.ops.{proto.type}({', '.join([*slots, *marker, *attrs])})"


def _slot(slot: VarProto, proto: OpProto) -> tuple[str, ...]:
    return f"`{slot.name}`", escape(slot.comment), escape("; ".join(describe_slot(slot, proto)))


def _attr(attr: AttrProto) -> tuple[str, ...]:
    if attr.required:
        default = "required"
    else:
        default = f"`{attr.default!r}`" if attr.has_default else "absent"
    return (
        f"`{attr.name}`",
        attr.type_name,
        default,
        escape(attr.describe_range()),
        escape(attr.comment),
    )


def _describe_gradient(definition: OpDefinition) -> str:
    rule = definition.gradient
    if isinstance(rule, NoGradient):
        return f"None: {escape(rule.reason)}."
    if isinstance(rule, GradOp):
        needs = ", ".join(f"`{name}`" for name in rule.needs) or "shapes only"
        return f"The operator `{rule.type}`, which reads {needs}."
    if rule is not None:
        return "Written in other operators."
    return "Through its body." if definition.body is not None else "None."


def _kernels(type: str, context: Context) -> str:
    """Return a table of kernels, those that are tried first in front."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for entry in context.kernels.sort(context.kernels.entries(type)):
        key = (entry.device, entry.library, entry.package.distribution, str(entry.priority))
        rows.setdefault(key, []).append("any" if entry.dtype == "*" else entry.dtype)
    if not rows:
        return "None of its own: its body runs."
    found = sorted(((*key, ", ".join(names)) for key, names in rows.items()), key=lambda r: r[0])
    return table(("device", "library", "distribution", "priority", "dtypes"), found)


def _section(title: str, body: str) -> str:
    return f"## {title}\n\n{body}" if body else ""


def _paragraphs(comment: str) -> str:
    return "\n".join(escape(line.strip()) for line in comment.strip().splitlines())


def _make_index(types: list[str], context: Context) -> str:
    """Return the list of all operators by name space, the standard ones first."""
    spaces: dict[str, list[str]] = {STANDARD: []}
    for type in types:
        prefix, dot, _ = type.rpartition(".")
        spaces.setdefault(f"opwright.ops.{prefix}" if dot else STANDARD, []).append(type)
    parts = [
        "# Operators",
        INTRODUCTION,
    ]
    for title, members in spaces.items():
        rows = [
            (
                f"[`{type}`]({type}.md)",
                escape(_first_sentence(context.ops.get(type).proto.comment)),
                ", ".join(context.kernels.devices_of(type)),
            )
            for type in members
        ]
        parts += [
            f"## {title}",
            table(("operator", "what", "kernels on"), rows),
        ]
    return "\n\n".join(parts) + "\n"


def _first_sentence(comment: str) -> str:
    """Return how a comment begins; where a long formula follows the name, the name."""
    text = " ".join(comment.split())
    end = text.find(". ")
    sentence = text if end < 0 else text[: end + 1]
    return sentence if len(sentence) <= LONGEST_SUMMARY else f"{sentence.partition(', ')[0]}."
