"""``opwright new``: write a package that provides an operator, a kernel or a device."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from opwright import current_context
from opwright.commands import print_json, resolving
from opwright_kit.scaffold import (
    CHOICES,
    LICENSES,
    check_folder,
    check_names,
    plan_package,
    write_package,
)
from opwright_kit.scaffold.formulas import DEFAULT_OPERATOR, FORMULAS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: the name and the kind of the package."""
    choices = ", ".join(f"{kind} in {language}" for kind, language in CHOICES)
    parser.epilog = f"There are: {choices}."
    parser.add_argument("name", help="name of the distribution and its folder: opwright-acme")
    parser.add_argument("--kind", default="operator", help="operator (default), kernel or device")
    parser.add_argument("--language", default="python", help="python (default), cpp or cuda")
    parser.add_argument(
        "--operator",
        metavar="TYPE",
        help=f"what a kernel computes, by default {DEFAULT_OPERATOR}: {', '.join(FORMULAS)}",
    )
    parser.add_argument(
        "--license", default="Apache-2.0", help=f"{' or '.join(LICENSES)}; default Apache-2.0"
    )
    parser.add_argument(
        "--into", metavar="FOLDER", type=Path, default=Path(), help="parent of the new folder"
    )


def run(args: argparse.Namespace) -> int:
    """Write the package, and print the next commands."""
    context = current_context()
    folder = args.into / args.name
    with resolving():
        package = plan_package(
            check_names(args.name, context),
            context,
            kind=args.kind,
            language=args.language,
            operator=args.operator,
            license=args.license,
        )
        check_folder(folder)
    write_package(folder, package.files)
    place = shlex.quote(str(folder))
    commands = [
        f"pip install {place if folder.is_absolute() else './' + place}",
        f"python {shlex.quote(str(folder / 'example.py'))}",
        f"opwright check {args.name}",
    ]
    if args.json:
        content = {"folder": str(folder), "files": list(package.files), "next": commands}
        print_json(content)
        return 0
    print(f"{folder}: {package.summary} ({len(package.files)} files)")
    print("next:")
    print("\n".join(f"  {command}" for command in commands))
    return 0
