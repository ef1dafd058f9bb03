"""Shows one operator as a page: its OpProto, its rules, its kernels and an example."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterable
from types import FunctionType
from typing import Any, Final

from opwright import Context, current_context
from opwright.commands import align, print_json
from opwright.errors import KernelError
from opwright.op import OpDefinition, OpProto, VarProto, describe_attribute
from opwright_kit.commands.example import Example, example_to_json, find_example
from opwright_kit.commands.gradients import describe_gradient

_WIDTH: Final = 96
_Row = tuple[str, str, str]
"""The name of a slot or attribute, its traits, its comment."""


def run(args: argparse.Namespace) -> int:
    """Print the page of an operator, as ``opwright ops NAME`` does."""
    context = current_context()
    page = Page(args.type, context)
    if args.json:  # it includes a crash of the example
        print_json(page.to_json())
        return 1 if page.crash else 0
    print(page.text())
    if page.crash:
        raise KernelError(page.crash)
    return 0


class Page:
    """The page of one operator, as text or as plain data.

    Parameters
    ----------
    type : str
        The operator type.
    context : Context

    Raises
    ------
    OperatorNotFoundError
        For an unknown type.
    """

    def __init__(self, type: str, context: Context) -> None:
        self._context = context
        self._definition = context.ops.get(type)
        self._example = find_example(self._definition, context)

    @property
    def crash(self) -> str:
        """How the example crashed, and a way out; empty if it ran."""
        if self._example is None or not self._example.crash:
            return ""
        return (
            f"{self._definition.op_type}: an example must run, got one that {self._example.crash}; "
            "update that package, or tell its authors"
        )

    def text(self) -> str:
        """Return the page, at most 100 columns wide."""
        definition, proto = self._definition, self._definition.proto
        package = self._context.ops.package_of(proto.type).label
        lines = [f"{proto.type}, version {proto.version}, from {package}", ""]
        lines += _wrap(proto.comment)
        for trait in _traits(definition):
            lines += _wrap(trait)
        lines += _entries("inputs", [_slot_row(slot, proto) for slot in proto.inputs])
        lines += _entries("outputs", [_slot_row(slot, proto) for slot in proto.outputs])
        attrs = [(attr.name, describe_attribute(attr), attr.comment) for attr in proto.attrs]
        lines += _entries("attributes", attrs)
        lines += _section("shapes", self._shapes())
        lines += _section("gradient", self._gradient())
        lines += _section("kernels", self._kernels())
        lines += _section("example", [] if self._example is None else self._code(self._example))
        return "\n".join(lines)

    def _shapes(self) -> list[str]:
        lines = _rule_in_words(self._definition)
        if self._example is not None:
            examples = (self._example.shapes(), self._example.shapes(unknown=True))
            lines += [part for line in examples if line is not None for part in _hang("", line)]
        return lines

    def _gradient(self) -> list[str]:
        sentences = describe_gradient(self._definition, self._example, self._context)
        return [part for line in sentences for part in _hang("", line)]

    def _code(self, example: Example) -> list[str]:
        """Return the lines of the example, and its result or its crash."""
        if example.crash:
            return [*example.code(), f"# the example {example.crash}"]
        slots = zip(self._definition.proto.outputs, example.outputs, strict=True)
        results = [str(m) for slot, metas in slots for m in metas if not slot.intermediate]
        return [*example.code(), f"# {', '.join(results)}"]

    def _kernels(self) -> list[str]:
        rows: dict[tuple[str, ...], list[str]] = {}
        type = self._definition.op_type
        for entry in self._context.kernels.sort(self._context.kernels.entries(type)):
            key = (entry.device, entry.library, f"priority {entry.priority}", entry.package.label)
            rows.setdefault(key, []).append(entry.dtype)
        if rows:
            table = [(*key, "") for key in rows]
            heads = align(table, indent="")
            width = max(map(len, heads)) + 2
            return [
                line
                for head, dtypes in zip(heads, rows.values(), strict=True)
                for line in _hang(head.ljust(width), " ".join(dtypes))
            ]
        if self._definition.body is not None:
            return ["none: it is run as the operators of its body"]
        if self._definition.control is not None:
            return ["none: control flow, whose blocks run as separate plans"]
        return ["none on any device"]

    def to_json(self) -> dict[str, Any]:
        """Return the page as plain data."""
        definition = self._definition
        type = definition.op_type
        return {
            **proto_to_json(definition.proto),
            "package": self._context.ops.package_of(type)._asdict(),
            "hidden": self._context.ops.is_hidden(type),
            "plan_only": definition.plan_only,
            "composite": definition.body is not None,
            "random": definition.random,
            "shape_rule": self._shapes(),
            "gradient": describe_gradient(definition, self._example, self._context),
            "kernels": [
                {**e.key._asdict(), "priority": e.priority, "package": e.package._asdict()}
                for e in self._context.kernels.sort(self._context.kernels.entries(type))
            ],
            "example": example_to_json(self._example),
        }


def _traits(definition: OpDefinition) -> list[str]:
    """Return the special traits of an operator, as sentences."""
    sentences = []
    if definition.plan_only:
        sentences.append(
            "Only passes put it into plans; it does not occur in programs and cannot be called."
        )
    if definition.body is not None:
        sentences.append(
            "A composite: if no kernel accepts it, the operators of its body run instead."
        )
    if definition.control is not None:
        sentences.append("Control flow: its blocks run as separate plans.")
    if definition.random:
        sentences.append("Draws random numbers from the program's seed, its stream and the step.")
    if definition.proto.dynamic_output:
        sentences.append("The shape of the result depends on values.")
    return sentences


def _rule_in_words(definition: OpDefinition) -> list[str]:
    """Return the docstring of the shape rule; the output comments describe the details."""
    rule = definition.infer_shape
    doc = rule.__doc__ if isinstance(rule, FunctionType) else None
    if doc:
        return _wrap(" ".join(doc.strip().partition("\n\n")[0].split()))
    return []


def describe_slot(slot: VarProto, proto: OpProto) -> list[str]:
    """Return the properties of a slot's variables, a few words each, such as ``may be absent``."""
    words = [" | ".join(slot.dtypes)] if slot.dtypes else []
    if slot.same_as is not None:
        words.append(f"dtype of {slot.same_as}")
    if slot.aliases is not None:
        words.append(f"alias: must be the variable of {slot.aliases}")
    if slot.duplicable:
        words.append("takes a list")
    if slot.optional:
        words.append("may be absent")
    if slot.intermediate:
        words.append("intermediate, for the gradient only")
    if slot.shape_only:
        words.append("only its shape is read")
    if slot.name == proto.dispatch_slot and slot in proto.inputs:
        words.append("its dtype selects the kernel")
    return words


def _slot_row(slot: VarProto, proto: OpProto) -> _Row:
    return slot.name, "; ".join(describe_slot(slot, proto)), slot.comment


def _wrap(text: str) -> list[str]:
    """Return the lines of a string, with lines too long for a terminal wrapped."""
    lines = text.strip().splitlines()
    return [part for line in lines for part in textwrap.wrap(line, _WIDTH) or [""]]


def _hang(head: str, text: str) -> list[str]:
    """Return a head followed by wrapped text; later lines are indented by the width of the head."""
    lines = textwrap.wrap(text, max(_WIDTH - len(head), 30)) or [""]
    below = " " * (len(head) or 2)
    return [head + lines[0], *(below + line for line in lines[1:])]


def _entries(title: str, rows: Iterable[_Row]) -> list[str]:
    """Return slots or attributes: the name, followed by the traits and the comment."""
    entries = list(rows)
    width = max((len(name) for name, _, _ in entries), default=0) + 2
    lines = []
    for name, traits, comment in entries:
        texts = [text for text in (traits, comment) if text]
        heads = [name, *("" for _ in texts[1:])]
        for head, text in zip(heads, texts, strict=True):
            lines += _hang(head.ljust(width), text)
    return _section(title, lines)


def _section(title: str, lines: Iterable[str]) -> list[str]:
    indented = [f"  {line}".rstrip() for line in lines]
    return ["", title, *indented] if indented else []


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
