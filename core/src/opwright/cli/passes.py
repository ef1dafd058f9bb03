"""``opwright passes`` lists the passes that rewrite a plan, and their packages."""

from __future__ import annotations

import argparse

from opwright.cli.command import check_device, print_report
from opwright.context.context import current_context
from opwright.messages.tables import align
from opwright.packages import ANY


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the filters of the list."""
    parser.add_argument("--device", help="only passes that run for this device")


def run(args: argparse.Namespace) -> int:
    """Print the table, without importing passes."""
    context = current_context()
    entries = context.passes.entries()
    if args.device is not None:
        named = {entry.device for entry in entries} - {ANY}
        check_device("passes", args.device, sorted({*context.devices.names(), *named}), context)
        entries = tuple(entry for entry in entries if entry.device in {args.device, ANY})
    items = [
        {"name": e.name, "phase": e.phase, "device": e.device, "package": e.package._asdict()}
        for e in entries
    ]
    rows = [(entry.name, entry.phase, entry.device, entry.package.label) for entry in entries]
    table = align([("pass", "phase", "device", "distribution"), *rows], indent="")
    count = f"{len(rows)} passes; to exclude one: compile(passes=['-NAME'])"
    print_report(args, items, [*table, count, *context.report.lines()])
    return 0
