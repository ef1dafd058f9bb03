"""A page for each operator, made from its OpProto, and their index by subject."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from typing import Any

from curves import draw_operator
from formulas import find_formulas, typeset
from markup import code, escape, table
from subjects import SUBJECTS, find_subjects
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
from opwright_kit.commands.example import find_example
from opwright_kit.commands.page import describe_slot

LONGEST_SUMMARY = 110
INTRODUCTION = """\
Each is a function of `opwright.ops`, for arrays and for variables of a program. These pages show
the descriptions of the operators, as does `opwright ops NAME`."""
SPEED = "[Their times compared with PyTorch](speed.md) are measured."

SLOT_TITLES = ("slot", "meaning", "rules")
BLOCKS = "It runs blocks of a program: [Write a loop](../write_a_loop.md) has examples."


def make_pages() -> dict[str, str]:
    """Return the pages by their path in the site."""
    context = current_context()
    types = [type for type in context.ops.types() if not context.ops.get(type).plan_only]
    timings = load_timings()
    pages = {f"operators/{type}.md": make_page(type, context, timings) for type in types}
    index = _make_index(types, context)
    if timings:
        pages["operators/speed.md"] = make_timings_page(timings)
        index = f"{index}\n{SPEED}\n"
    return {**pages, "operators/index.md": index}


def make_page(type: str, context: Context, timings: dict[str, Any]) -> str:
    """Return one operator as a page of Markdown."""
    definition = context.ops.get(type)
    proto = definition.proto
    package = context.ops.package_of(type).label
    with redirect_stdout(io.StringIO()):  # hides output of the operator `print`
        curve, example = draw_operator(proto, context), _example(definition, context)
    parts = [
        "---\norphan: true\n---",  # hundreds of pages are too many for a side bar
        f"# {type}",
        code("python", _signature(proto)),
        typeset(find_formulas(proto)),
        _paragraphs(proto.comment),
        curve,
        _section("Example", example),
        _section("Inputs", table(SLOT_TITLES, (_slot(s, proto) for s in proto.inputs))),
        _section("Outputs", table(SLOT_TITLES, (_slot(s, proto) for s in proto.outputs))),
        _section(
            "Attributes",
            table(("attribute", "type", "default", "range", "meaning"), map(_attr, proto.attrs)),
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


def _example(definition: OpDefinition, context: Context) -> str:
    """Return a call that has run on the host, with the shapes of its arguments and results."""
    if definition.control is not None:
        return BLOCKS
    example = find_example(definition, context)
    if example is None:
        return ""
    return "\n\n".join([code("python", "\n".join(example.code())), f"`{example.shapes()}`"])


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
    """Return a table of kernels, in the order in which they are tried."""
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
    """Return the list of all operators, with the standard operators grouped by subject."""
    subject_of = find_subjects()
    groups: dict[str, tuple[str, list[str]]] = {s.title: (s.sentence, []) for s in SUBJECTS}
    for type in types:
        if type in subject_of:
            title, sentence = subject_of[type].title, ""
        else:
            title, sentence = f"`opwright.ops.{type.rpartition('.')[0]}`", _owner(type, context)
        groups.setdefault(title, (sentence, []))[1].append(type)
    parts = ["# Operators", INTRODUCTION]
    for title, (sentence, members) in groups.items():
        if not members:
            continue
        rows = [
            (
                f"[`{type}`]({type}.md)",
                escape(_first_sentence(context.ops.get(type).proto.comment)),
                ", ".join(context.kernels.devices_of(type)),
            )
            for type in members
        ]
        parts += [f"## {title}", sentence, table(("operator", "meaning", "kernels on"), rows)]
    return "\n\n".join(parts) + "\n"


def _owner(type: str, context: Context) -> str:
    return f"Operators of {context.ops.package_of(type).distribution}."


def _first_sentence(comment: str) -> str:
    """Return the first sentence of a comment, or only its beginning up to a comma if it is long."""
    text = " ".join(comment.split())
    end = text.find(". ")
    sentence = text if end < 0 else text[: end + 1]
    return sentence if len(sentence) <= LONGEST_SUMMARY else f"{sentence.partition(', ')[0]}."
