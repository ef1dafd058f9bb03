"""``opwright kernels``: the installed kernels as a matrix of operator, device and dtype."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import NamedTuple

from opwright.cli.matrix import Matrix
from opwright.cli.usage import check_device, resolving
from opwright.describe.dtypes import DTYPES, canonical_dtype
from opwright.describe.names import hint
from opwright.errors import CommandError
from opwright.plugins.context import Context, current_context
from opwright.registry import ANY, HOST_DEVICE, DeviceName, KernelRegistration, Package
from opwright.registry.refusals import Refusals

_EPILOG = (
    "A cell holds the letters of the libraries whose kernels fit, in the order in which they are "
    "tried, and a dot where there is none. The legend reports libraries whose kernels would refuse "
    "on this machine, where their plugin knows."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the filters of the matrix."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "pattern", nargs="*", help="operator type, or a pattern such as 'softmax*'; default: all"
    )
    parser.add_argument("--device", help="only the rows of this device; its number changes nothing")
    parser.add_argument("--dtype", help="only the column of this dtype")
    parser.add_argument("--library", help="only kernels of this library")
    parser.add_argument("--distribution", help="only kernels that this distribution provides")


class _Kernel(NamedTuple):
    """A registration, its package, and why it would refuse on this machine, or ""."""

    registration: KernelRegistration
    package: Package
    refusal: str = ""


def run(args: argparse.Namespace) -> int:
    """Print the matrix; of plugins only functions that report refusals are imported."""
    context = current_context()
    answers = Refusals(context.options.fill(context.chosen_options))
    with resolving():
        if args.device:
            args.device = DeviceName.parse(args.device).kind
        types = select_types(context, args.pattern)
        selected = _select_kernels(context, types, args)
    kernels = [
        kernel._replace(
            refusal=answers.find(kernel.registration.find_refusal, kernel.package) or ""
        )
        for kernel in selected
    ]
    if args.json:
        print(json.dumps([_to_json(kernel) for kernel in kernels], indent=2))
        for fault in answers.faults:
            print(fault, file=sys.stderr)
        return 0
    if args.library or args.distribution:
        types = sorted({kernel.registration.op_type for kernel in kernels})
    devices = [args.device] if args.device else _known_devices(context, kernels)
    dtypes = _known_dtypes(kernels) if args.dtype is None else [canonical_dtype(args.dtype)]
    print("\n".join(Matrix(kernels, types, devices, dtypes).lines()))
    for line in (*context.report.lines(), *answers.faults):
        print(line)
    return 0


def select_types(context: Context, patterns: Iterable[str]) -> list[str]:
    """Return the operator types that fit any of the patterns, sorted; all without a pattern.

    OperatorNotFoundError for a name that no operator and no kernel has, CommandError for a pattern
    that fits none.
    """
    known = {*context.ops.types(all=True), *context.kernels.op_types()}
    selected: set[str] = set()
    for pattern in patterns:
        fitting = {type for type in known if fnmatchcase(type, pattern)}
        if not fitting and any(mark in pattern for mark in "*?["):
            raise CommandError(
                f"kernels: a pattern must fit an operator, got {pattern!r}; see: opwright ops --all"
            )
        selected |= fitting or {context.ops.get(pattern).op_type}
    return sorted(selected if list(patterns) else known)


def _select_kernels(
    context: Context, types: Iterable[str], args: argparse.Namespace
) -> list[_Kernel]:
    every = [_Kernel(*item) for item in context.kernels.registrations()]
    dtype = None if args.dtype is None else canonical_dtype(args.dtype)
    if args.device is not None:
        check_device("kernels", args.device, _known_devices(context, every), context)
    _check_known("library", args.library, (k.registration.library for k in every))
    _check_known("distribution", args.distribution, (k.package.distribution for k in every))
    selected = set(types)
    kernels = [
        kernel
        for kernel in every
        if kernel.registration.op_type in selected
        and (args.device is None or kernel.registration.device in {args.device, ANY})
        and (dtype is None or {dtype, ANY}.intersection(kernel.registration.dtypes))
        and args.library in {None, kernel.registration.library}
        and args.distribution in {None, kernel.package.distribution}
    ]
    return sorted(kernels, key=_rank)


def _rank(kernel: _Kernel) -> tuple[str, str, int, str]:
    r = kernel.registration
    return r.op_type, r.device, -r.priority, r.library


def _known_devices(context: Context, kernels: Iterable[_Kernel]) -> list[str]:
    named = {kernel.registration.device for kernel in kernels}
    devices = {HOST_DEVICE, *context.devices.names(), *named} - {ANY}
    return sorted(devices, key=lambda name: (name != HOST_DEVICE, name))


def _known_dtypes(kernels: Iterable[_Kernel]) -> list[str]:
    """Return the dtypes that a kernel names, or all where one is for any."""
    named = {dtype for kernel in kernels for dtype in kernel.registration.dtypes}
    return [dtype for dtype in DTYPES if ANY in named or dtype in named]


def _check_known(what: str, name: str | None, names: Iterable[str]) -> None:
    known = sorted(set(names))
    if name is not None and name not in known:
        plural = "libraries" if what == "library" else f"{what}s"
        raise CommandError(
            f"kernels: no kernel is of the {what}, got {name!r}{hint(name, known, plural)}"
        )


def _to_json(kernel: _Kernel) -> dict[str, object]:
    registration = kernel.registration
    return {
        **registration._asdict(),
        "prefers": dict(registration.prefers),
        "find_refusal": registration.find_refusal or None,
        "package": kernel.package._asdict(),
        "refusal": kernel.refusal or None,
    }
