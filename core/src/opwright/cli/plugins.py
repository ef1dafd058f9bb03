"""``opwright plugins`` lists the installed plugins with their objects, and reasons of failures."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from opwright.cli.command import print_report
from opwright.context.context import Context, current_context
from opwright.discovery.scan import PluginRecord
from opwright.messages.tables import align
from opwright.packages import Package
from opwright.packages.import_notes import (
    EndedImport,
    advise_retry,
    describe_ended,
    ended_to_json,
    is_left_out,
)
from opwright.vocabulary import PROVIDER

_TITLE = ("plugin", "distribution", "state", "operators", "kernels", "devices", "passes")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Do nothing, because the command does not have arguments."""


def run(args: argparse.Namespace) -> int:
    """Print the table, and each failed plugin with its reason; `doctor` prints more."""
    context = current_context()
    items = list_plugins(context)
    print_report(args, items, _format_plugins(context, items))
    return 0


def _format_plugins(context: Context, items: list[dict[str, Any]]) -> Iterator[str]:
    if not items:
        yield f"no plugin is installed; to get the standard operators: pip install {PROVIDER}"
        return
    yield from align([_TITLE, *map(_row, items)], right={3, 4, 5, 6}, indent="")
    for failure in context.failures:
        yield f"plugin {failure.package.plugin!r} failed to load: {failure.reason}"
    yield from _format_options(context)
    yield from _format_ended(context)
    if context.failures:
        yield "to see more: opwright doctor"


def _format_options(context: Context) -> list[str]:
    entries = context.options.entries()
    if not entries:
        return []
    rows = [
        (entry.name, f"{type(entry.default).__name__}, default {entry.default!r}", entry.comment)
        for entry in entries
    ]
    return ["options, for compile(options={...}):", *align(rows)]


def _format_ended(context: Context) -> Iterator[str]:
    """Yield imports that killed processes, whether they are skipped, and how to retry them."""
    reported = {failure.reason for failure in context.failures}
    groups = _group_ended(context)
    for (package, _), ended in groups.items():
        text = describe_ended(ended)
        if text not in reported:
            yield f"plugin {package.plugin!r}: {text}"
    for plugin in sorted({p.plugin for (p, _), ended in groups.items() if is_left_out(ended)}):
        yield f"to try it again: {advise_retry(plugin)}"


def _group_ended(context: Context) -> dict[tuple[Package, str], list[EndedImport]]:
    packages = [*context.report.loaded, *(failure.package for failure in context.failures)]
    return context.ops.libraries.notes.group(packages)


def list_plugins(context: Context) -> list[dict[str, Any]]:
    """Return each installed plugin as plain data, in load order."""
    failures = {failure.package: failure.reason for failure in context.failures}
    records = {record.package: record for record in context.records}
    states = {package: "loaded" for package in records if package not in failures}
    states |= dict.fromkeys(failures, "failed") | dict.fromkeys(context.report.disabled, "disabled")
    ended = _group_ended(context)
    items = []
    for package, state in states.items():
        record = records[package] if state == "loaded" else None
        item = {**package._asdict(), "state": state, **_count(record)}
        if state == "failed":
            item["reason"] = failures[package]
        item["options"] = [
            {"name": e.name, "default": e.default, "comment": e.comment}
            for e in context.options.entries()
            if e.package == package
        ]
        item["ended_imports"] = [
            ended_to_json(subject, group) for (p, subject), group in ended.items() if p == package
        ]
        items.append(item)
    return items


def _count(record: PluginRecord | None) -> dict[str, int]:
    counts = (0, 0, 0, 0)
    if record is not None:
        kernels = sum(len(kernel.dtypes) for kernel in record.kernels)
        counts = (len(record.ops), kernels, len(record.devices), len(record.passes))
    return dict(zip(_TITLE[3:], counts, strict=True))


def _row(item: dict[str, Any]) -> tuple[str, ...]:
    label = f"{item['distribution']} {item['version']}"
    counts = (str(item[name]) for name in _TITLE[3:])
    return (item["plugin"], label, item["state"], *counts)
