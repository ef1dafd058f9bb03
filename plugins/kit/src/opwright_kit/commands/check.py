"""``opwright check``: runs the conformance kit on an installed package."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from opwright.commands import print_json, resolving
from opwright.errors import CommandError
from opwright_kit.testing import (
    TIME_LIMIT_S,
    Check,
    IsolatedCheck,
    PackageCheck,
    Result,
    run_check,
)
from opwright_kit.testing.results.text import format_junit, format_scorecard

_CLEAR: Final = "\r\033[K"
"""Clears the line of a terminal and returns to its beginning."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: the distribution to check, and options that restrict the check."""
    parser.add_argument("package", help="distribution to check, as pip knows it")
    parser.add_argument(
        "--rule", action="append", default=[], metavar="NAME", help="only this rule; repeatable"
    )
    parser.add_argument("--subject", metavar="NAME", help="only this operator or kernel")
    parser.add_argument("--seed", type=int, default=0, help="seed of the samples (default: 0)")
    parser.add_argument("--sample", type=int, metavar="NUMBER", help="only this sample")
    parser.add_argument("--dtype", help="only this dispatch dtype")
    parser.add_argument(
        "--time-limit",
        type=float,
        default=TIME_LIMIT_S,
        metavar="SECONDS",
        help=f"for one sample of one rule (default: {TIME_LIMIT_S:g})",
    )
    parser.add_argument(
        "--junit", metavar="FILE", type=Path, help="also write JUnit's XML, for machines"
    )
    parser.add_argument(
        "--in-process",
        action="store_true",
        help="check in this process, without a time limit, for debuggers",
    )


def run(args: argparse.Namespace) -> int:
    """Print the scorecard; return 1 if there are findings."""
    shows = sys.stderr.isatty() and not args.json
    if args.junit is not None:
        _write(args.junit, "")  # now, not after minutes of checks
    with ExitStack() as stack:
        with resolving():  # an error in a check is a finding
            check = _open(args, stack)
        card = run_check(check, _show if shows else None)
    if shows:
        print(_CLEAR, end="", file=sys.stderr, flush=True)
    if not card.results:
        raise CommandError(
            f"check: a rule must apply to {args.subject or args.package}, got only rules that do "
            f"not apply: {', '.join(args.rule)}"
        )
    if args.junit is not None:
        _write(args.junit, format_junit(card))
    if args.json:
        print_json(card.to_json())
    else:
        print(format_scorecard(card))
    return 0 if card.ok else 1


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(
            f"check: --junit must name a file that can be written, got {str(path)!r}: "
            f"{error.strerror or error}"
        ) from error


def _check_number(option: str, number: int) -> int:
    if number < 0:
        raise CommandError(f"check: --{option} must be at least 0, got {number}")
    return number


def _open(args: argparse.Namespace, stack: ExitStack) -> Check:
    """Return the check, in this process or in a child process that ends when `stack` closes."""
    options: dict[str, Any] = {
        "rules": args.rule,
        "subject": args.subject,
        "seed": _check_number("seed", args.seed),
        "sample": None if args.sample is None else _check_number("sample", args.sample),
        "dtype": args.dtype,
    }
    if args.in_process:
        return PackageCheck(args.package, **options)
    check = IsolatedCheck(args.package, time_limit_s=args.time_limit, **options)
    return stack.enter_context(check)


def _show(result: Result) -> None:
    """Show the current check on a terminal, until the next result overwrites it."""
    print(f"{_CLEAR}{result.subject}: {result.rule}", end="", file=sys.stderr, flush=True)
