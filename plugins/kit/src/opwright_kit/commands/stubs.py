"""``opwright stubs``: writes the installed operators as a ``.pyi``, for type checkers."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import os
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Final, NamedTuple

import opwright
from opwright import Context, current_context
from opwright.commands import print_json
from opwright.errors import CommandError, OpwrightError
from opwright.op import OpDefinition
from opwright_kit.stubs import make_stub

PACKAGE: Final = "opwright-stubs"
"""A partial stub package (PEP 561): everything else is read from opwright itself."""

_SHOWN_CHANGES: Final = 10
_WIDTH: Final = 95


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: the output folder, and a flag to only compare."""
    parser.epilog = (
        f"Writes DIR/{PACKAGE}/ops/__init__.pyi. DIR is where opwright is installed: mypy and "
        "Pyright look there by default."
    )
    parser.add_argument("--output", metavar="DIR", help="folder for the stub package")
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; exit with 1 if stubs are stale or missing",
    )


def run(args: argparse.Namespace) -> int:
    """Write the stubs, or compare them with the installed operators."""
    context = current_context()
    definitions, left_out = _load(context)
    if not definitions:
        raise CommandError(
            "stubs: an operator must be installed, got none; pip install opwright-std"
        )
    root = _find_folder(args.output) / PACKAGE
    loaded = sorted(package.label for package in context.report.loaded)
    # Pyright reads a package with py.typed only from stubs, so the stubs must contain all names of
    # the package.
    names = Path(str(opwright.__file__)).with_name("__init__.pyi").read_text(encoding="utf-8")
    files = {
        root / "py.typed": "partial\n",
        root / "__init__.pyi": names,
        root / "ops" / "__init__.pyi": make_stub(definitions, loaded),
    }
    changes = _compare(files)
    if not args.check:
        _write(files)
    stale = bool(changes) and args.check
    report = _Report(str(root), len(definitions), stale, changes, left_out)
    if args.json:
        print_json(report._asdict())
    else:
        print("\n".join(report.lines(args)))
    return 1 if stale else 0


def _load(context: Context) -> tuple[list[OpDefinition], list[str]]:
    """Return the public operators, and errors of operators that cannot be loaded."""
    definitions: list[OpDefinition] = []
    left_out: list[str] = []
    for op_type in context.ops.types():
        try:
            definitions.append(context.ops.get(op_type))
        except OpwrightError as error:
            left_out.append(str(error))
    return definitions, left_out


def _find_folder(output: str | None) -> Path:
    if output is not None:
        return Path(output)
    try:
        return Path(str(metadata.distribution("opwright").locate_file("")))
    except metadata.PackageNotFoundError as error:
        raise CommandError(
            "stubs: opwright must be installed to find the default folder for stubs, got no "
            "distribution of this name; give a folder: --output DIR"
        ) from error


def _compare(files: dict[Path, str]) -> list[str]:
    """Return missing and superfluous lines of the files; in each file, signatures come first."""
    changes = []
    for path, text in files.items():
        try:
            old = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            changes.append(f"{path.name} does not exist")
            continue
        except (OSError, UnicodeError) as error:
            changes.append(f"{path.name} cannot be read: {error}")
            continue
        lines = difflib.unified_diff(old.splitlines(), text.splitlines(), n=0, lineterm="")
        differing = [line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]
        changes += sorted(differing, key=lambda line: not line[1:].lstrip().startswith("def "))
    return changes


def _write(files: dict[Path, str]) -> None:
    """Write the files that differ, each in one step, so no reader sees a partial file."""
    for path, text in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError, UnicodeError):
                if path.read_text(encoding="utf-8") == text:
                    continue
            _replace(path, text)
        except OSError as error:
            raise CommandError(
                f"stubs: the folder must be writable, got {path.parent}: "
                f"{error.strerror}; give another: --output DIR"
            ) from error


def _replace(path: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".new")
    new = Path(name)
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.chmod(0o644)  # mkstemp's mode excludes all others
        new.replace(path)
    except BaseException:
        new.unlink()
        raise


class _Report(NamedTuple):
    """The result of ``opwright stubs``."""

    path: str
    operators: int
    stale: bool
    changes: list[str]
    left_out: list[str]

    def lines(self, args: argparse.Namespace) -> list[str]:
        """Return the result as text."""
        state = "up to date"
        if self.changes:
            state = "stale" if args.check else "written"
        lines = [f"{self.path} is {state}: {self.operators} operators"]
        if self.stale:
            changes = self.changes[:_SHOWN_CHANGES]
            lines += [
                f"  {line}" if len(line) <= _WIDTH else f"  {line[:_WIDTH]}..." for line in changes
            ]
            more = len(self.changes) - _SHOWN_CHANGES
            lines += [f"  and {more} more lines"] if more > 0 else []
            way = f" --output {args.output}" if args.output else ""
            lines.append(f"to rewrite it: opwright stubs{way}")
        return lines + [f"left out: {reason}" for reason in self.left_out]
