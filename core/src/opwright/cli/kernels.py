"""``opwright kernels``: every kernel by operator, device and library."""

from __future__ import annotations

import argparse
import json

from opwright.context import Context, current_context
from opwright.dtypes import canonical_dtype
from opwright.registry import ANY, KernelRegistration, Package
from opwright.tables import align

_TITLE = ("operator", "device", "library", "priority", "distribution", "dtypes")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the list can be narrowed by."""
    parser.add_argument("type", nargs="?", help="only kernels of this operator")
    parser.add_argument("--device", help="only kernels for this device")
    parser.add_argument("--dtype", help="only kernels for this dtype")
    parser.add_argument("--library", help="only kernels of this library")


def run(args: argparse.Namespace) -> int:
    """Print the table; nothing of a plugin is imported."""
    context = current_context()
    found = select(context, args)
    if args.json:
        print(json.dumps([_to_json(*item) for item in found], indent=2))
        return 0
    print("\n".join(align([_TITLE, *(_row(*item) for item in found)], right={3}, indent="")))
    count = sum(len(registration.dtypes) for registration, _ in found)
    print(f"{count} kernels; to see why one is chosen: opwright explain NAME")
    for line in context.report.lines():
        print(line)
    return 0


def select(context: Context, args: argparse.Namespace) -> list[tuple[KernelRegistration, Package]]:
    """Return the registrations that fit the arguments, best first for each operator and device.

    Raises
    ------
    OperatorNotFoundError
        For an operator that has neither a definition nor a kernel.
    DtypeError
        For an unknown dtype.
    """
    types = context.kernels.op_types()
    if args.type is not None and args.type not in types:
        context.ops.get(args.type)
    dtype = None if args.dtype is None else canonical_dtype(args.dtype)
    found = [
        (registration, package)
        for registration, package in context.kernels.registrations()
        if args.type in {None, registration.op_type}
        and (args.device is None or registration.device in {args.device, ANY})
        and (dtype is None or {dtype, ANY}.intersection(registration.dtypes))
        and args.library in {None, registration.library}
    ]
    return sorted(found, key=lambda item: (item[0].op_type, item[0].device, -item[0].priority))


def _row(registration: KernelRegistration, package: Package) -> tuple[str, ...]:
    return (
        registration.op_type,
        registration.device,
        registration.library,
        str(registration.priority),
        package.label,
        " ".join(registration.dtypes),
    )


def _to_json(registration: KernelRegistration, package: Package) -> dict[str, object]:
    return {**registration._asdict(), "package": package._asdict()}
