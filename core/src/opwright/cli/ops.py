"""``opwright ops`` lists the operators, or shows one operator as a page."""

from __future__ import annotations

import argparse

from opwright.cli.command import get_command, print_report, resolving
from opwright.context.context import Context, current_context
from opwright.messages.tables import align


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the operator type, and the switch that also lists helper operators."""
    parser.add_argument("type", nargs="?", help="show this operator as a page")
    parser.add_argument("--all", action="store_true", help="helpers of gradients too")


def run(args: argparse.Namespace) -> int:
    """Print the list or the page."""
    context = current_context()
    if args.type is None:
        _print_list(context, args)
        return 0
    with resolving():
        context.ops.get(args.type)
    return int(get_command("ops.page").load().run(args))


def _print_list(context: Context, args: argparse.Namespace) -> None:
    """Print the registered operators without importing their definitions."""
    types = context.ops.types(all=args.all)
    devices = {type: context.kernels.devices_of(type) for type in types}
    packages = {type: context.ops.package_of(type) for type in types}
    items = [
        {
            "type": type,
            "package": packages[type]._asdict(),
            "devices": devices[type],
            "hidden": context.ops.is_hidden(type),
        }
        for type in types
    ]
    rows = [(t, packages[t].label, ", ".join(devices[t]) or "-") for t in types]
    table = align([("operator", "distribution", "kernels on"), *rows], indent="")
    count = f"{len(types)} operators; to see one: opwright ops NAME"
    print_report(args, items, [*table, count, *context.report.lines()])
