"""``opwright kernels`` shows the installed kernels as a matrix of operator, device and dtype."""

from __future__ import annotations

import argparse
import string
import sys
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Final, TypeAlias

from opwright.cli.command import check_device, print_json, resolving
from opwright.context.context import Context, current_context
from opwright.describe.dtypes import DTYPES, canonical_dtype, short_dtype
from opwright.errors import CommandError
from opwright.messages.names import hint
from opwright.messages.tables import align
from opwright.packages import ANY, KernelRegistration, Package, fits_dtype
from opwright.registry import HOST_DEVICE, DeviceName
from opwright.registry.kernels import WOULD_REFUSE, find_refusals

_WIDTH: Final = 100
_NONE: Final = "."
_SHOWN_LIBRARIES: Final = 3
"""The maximum number of letters in one cell; a plus sign means more."""

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


_Kernel: TypeAlias = tuple[KernelRegistration, Package]


def run(args: argparse.Namespace) -> int:
    """Print the matrix; only plugin functions that report refusals are imported."""
    context = current_context()
    with resolving():
        if args.device:
            args.device = DeviceName.parse(args.device).kind
        types = select_types(context, args.pattern)
        kernels = _select_kernels(context, types, args)
    asked = [(registration.find_refusal, package) for registration, package in kernels]
    reasons, faults = find_refusals(asked, context.options.fill(context.chosen_options))
    refusals = [reasons.get(key) for key in asked]
    if args.json:
        print_json(list(map(_to_json, kernels, refusals)))
        for fault in faults:
            print(fault, file=sys.stderr)
        return 0
    if args.library or args.distribution:
        types = sorted({registration.op_type for registration, _ in kernels})
    devices = [args.device] if args.device else _known_devices(context, kernels)
    dtypes = _known_dtypes(kernels) if args.dtype is None else [canonical_dtype(args.dtype)]
    lines = format_matrix(kernels, refusals, types, devices, dtypes)
    print(*lines, *context.report.lines(), *faults, sep="\n")
    return 0


def select_types(context: Context, patterns: Iterable[str]) -> list[str]:
    """Return the operator types that match any pattern, sorted; without patterns, all types.

    Raises OperatorNotFoundError for a name that neither an operator nor a kernel has, and
    CommandError for a pattern without a match.
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
    every = context.kernels.registrations()
    dtype = None if args.dtype is None else canonical_dtype(args.dtype)
    if args.device is not None:
        check_device("kernels", args.device, _known_devices(context, every), context)
    _check_known("library", args.library, (registration.library for registration, _ in every))
    _check_known("distribution", args.distribution, (package.distribution for _, package in every))
    selected = set(types)
    kernels = [
        (registration, package)
        for registration, package in every
        if registration.op_type in selected
        and (args.device is None or registration.device in {args.device, ANY})
        and (dtype is None or fits_dtype(registration.dtypes, dtype))
        and args.library in {None, registration.library}
        and args.distribution in {None, package.distribution}
    ]
    return sorted(kernels, key=lambda k: (k[0].op_type, k[0].device, -k[0].priority, k[0].library))


def _known_devices(context: Context, kernels: Iterable[_Kernel]) -> list[str]:
    named = {registration.device for registration, _ in kernels}
    devices = {HOST_DEVICE, *context.devices.names(), *named} - {ANY}
    return sorted(devices, key=lambda name: (name != HOST_DEVICE, name))


def _known_dtypes(kernels: Iterable[_Kernel]) -> list[str]:
    """Return the dtypes that the kernels name, or all if one of them supports every dtype."""
    named = {dtype for registration, _ in kernels for dtype in registration.dtypes}
    return [dtype for dtype in DTYPES if fits_dtype(named, dtype)]


def _check_known(what: str, name: str | None, names: Iterable[str]) -> None:
    known = sorted(set(names))
    if name is not None and name not in known:
        plural = "libraries" if what == "library" else f"{what}s"
        raise CommandError(
            f"kernels: no kernel matches the {what}, got {name!r}{hint(name, known, plural)}"
        )


def _to_json(kernel: _Kernel, refusal: str | None) -> dict[str, object]:
    registration, package = kernel
    return {
        **registration._asdict(),
        "prefers": dict(registration.prefers),
        "find_refusal": registration.find_refusal or None,
        "package": package._asdict(),
        "refusal": refusal,
    }


def format_matrix(
    kernels: Sequence[_Kernel],
    refusals: Sequence[str | None],
    types: Sequence[str],
    devices: Sequence[str],
    dtypes: Sequence[str],
) -> list[str]:
    """Return a matrix of kernels as lines of text, and the legend of the letters.

    A kernel for any dtype is in all columns, and a kernel for any device in all rows. Rows are
    `types` with each of `devices`, columns are `dtypes`.
    """
    if not kernels:
        return ["no kernel fits"]
    letters = _choose_letters({registration.library for registration, _ in kernels})
    by_type: dict[str, list[KernelRegistration]] = {op_type: [] for op_type in types}
    for registration, _ in kernels:
        by_type[registration.op_type].append(registration)
    rows = [("operator", "device", *map(short_dtype, dtypes))]
    for op_type, registrations in by_type.items():
        for device in devices:
            cells = [_format_cell(registrations, device, dtype, letters) for dtype in dtypes]
            rows.append((op_type, device, *cells))
    shown = {*dtypes, ANY}
    count = sum(len(shown.intersection(registration.dtypes)) for registration, _ in kernels)
    return [
        *_fit(rows),
        "",
        *_format_legend(kernels, refusals, letters),
        f"{count} kernels of {len(types)} operators; the first letter is tried first",
        "to see why one is chosen: opwright explain NAME",
    ]


def _format_cell(
    registrations: Iterable[KernelRegistration], device: str, dtype: str, letters: dict[str, str]
) -> str:
    """Return the letters of the kernels' libraries in the order of `KernelRegistry.candidates`."""
    ranked = sorted(
        (-r.priority, r.device == ANY, dtype not in r.dtypes, r.library)
        for r in registrations
        if r.device in {device, ANY} and fits_dtype(r.dtypes, dtype)
    )
    fitting = [letters[library] for *_, library in ranked]
    more = "+" if len(fitting) > _SHOWN_LIBRARIES else ""
    return "".join(fitting[:_SHOWN_LIBRARIES]) + more or _NONE


def _format_legend(
    kernels: Iterable[_Kernel], refusals: Sequence[str | None], letters: dict[str, str]
) -> list[str]:
    """Return the letter, name, packages and reason for refusal of each library."""
    labels: dict[str, set[str]] = {}
    reasons: dict[str, list[str | None]] = {}
    for (registration, package), refusal in zip(kernels, refusals, strict=True):
        labels.setdefault(registration.library, set()).add(package.label)
        reasons.setdefault(registration.library, []).append(refusal)
    rows = []
    for library, its in sorted(reasons.items()):
        begin = WOULD_REFUSE if all(its) else f"some {WOULD_REFUSE}"
        texts = "; ".join(begin + reason for reason in dict.fromkeys(filter(None, its)))
        rows.append((letters[library], library, ", ".join(sorted(labels[library])), texts))
    return align(rows, indent="")


def _choose_letters(libraries: Iterable[str]) -> dict[str, str]:
    """Assign each library a letter, from its name if one is free.

    If there are more libraries than letters, the remaining libraries get numbers in brackets.
    """
    letters: dict[str, str] = {}
    spare = string.ascii_uppercase + string.ascii_lowercase + string.digits
    for number, library in enumerate(sorted(libraries), start=1):
        free = [c for c in (*library.upper(), *library, *spare) if c not in letters.values()]
        letters[library] = next((c for c in free if c in spare), f"({number})")
    return letters


def _fit(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align the rows; a name that is too long gets a separate line."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    room = _WIDTH - sum(widths[1:]) - len(widths) + 1
    width = min(max(room, len("operator")), widths[0])
    lines = []
    for op_type, *cells in rows:
        line = " ".join(cell.ljust(w) for cell, w in zip(cells, widths[1:], strict=True))
        if len(op_type) > width:
            lines.append(op_type)
        name = op_type if len(op_type) <= width else ""
        lines.append(f"{name.ljust(width)} {line}".rstrip())
    return lines
