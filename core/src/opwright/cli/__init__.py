"""The command ``opwright``: what is installed, why a kernel was chosen, what is broken.

Each command is a file of its own with ``add_arguments(parser)`` and ``run(args) -> exit code``.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, Final

from opwright.errors import CommandError, OpwrightError
from opwright.names import hint

COMMANDS: Final = {
    "plugins": "list the installed plugins and what came of them",
    "ops": "list the operators, or show one as a page",
    "kernels": "show which kernels there are, by operator, device and dtype",
    "passes": "list the passes that rewrite a plan, in the order in which they run",
    "graph": "draw a saved program as a page for a browser, with kernels and times",
    "explain": "say which kernel serves an operator, and why",
    "check": "check every operator and kernel of an installed package by rules",
    "new": "write a package that brings an operator, a kernel or a device",
    "bench": "time every kernel of an operator in turn, and compare what they compute",
    "stubs": "write the installed operators as a .pyi, for type checkers and editors",
    "doctor": "find what is broken, and the command that helps",
}
"""Every command, which is a module of this package, and one line about it."""

_DESCRIPTION = "Shows what is installed, why a kernel is chosen, and what is broken."

_USAGE_ERROR = 2
_INTERRUPTED = 130
"""As of a process that a shell has interrupted."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code: 0 good, 1 something is wrong, 2 wrong usage.

    Parameters
    ----------
    argv : sequence of str, optional
        By default what the process was started with.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    command = next((word for word in words if not word.startswith("-")), None)
    if command is not None and command not in COMMANDS:
        return _fail(f"unknown command, got {command!r}{hint(command, COMMANDS, 'commands')}")
    parser, options = _make_parser(command)
    args, unknown = parser.parse_known_args(words)
    if unknown:
        return _fail(_unknown_argument(command, unknown[0], options))
    if command is None:
        parser.print_help()
        return _USAGE_ERROR
    return _run(command, args)


def _run(command: str, args: argparse.Namespace) -> int:
    try:
        code = int(importlib.import_module(f"opwright.cli.{command}").run(args))
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # `opwright kernels | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt as interrupt:
        notes = getattr(interrupt, "__notes__", ())  # such as the plugin that was being loaded
        return _fail("\n  ".join([f"{command}: interrupted", *notes]), code=_INTERRUPTED)
    except OpwrightError as error:
        return _fail(str(error), code=_USAGE_ERROR if isinstance(error, CommandError) else 1)


def _make_parser(command: str | None) -> tuple[argparse.ArgumentParser, list[str]]:
    """Make the parser, and list the options of the command that is given.

    No module of another command is imported.
    """
    import opwright

    parser = argparse.ArgumentParser(prog="opwright", description=_DESCRIPTION)
    version = getattr(opwright, "__version__", "unknown")
    parser.add_argument("--version", action="version", version=f"opwright {version}")
    options = ["--help", "--version"]
    subparsers: Any = parser.add_subparsers(metavar="COMMAND", dest="command")
    for name, summary in COMMANDS.items():
        sub = subparsers.add_parser(name, help=summary, description=f"{summary.capitalize()}.")
        if name == command:
            importlib.import_module(f"opwright.cli.{name}").add_arguments(sub)
            sub.add_argument("--json", action="store_true", help="print JSON, for machines")
            options = [max(a.option_strings, key=len) for a in sub._actions if a.option_strings]
    return parser, options


def _unknown_argument(command: str | None, word: str, options: list[str]) -> str:
    if not word.startswith("-"):
        options = []
    near = hint(word.partition("=")[0], options, "options") if options else ""
    return f"{command or 'opwright'}: unknown argument, got {word!r}{near or '; see: --help'}"


def _fail(message: str, code: int = _USAGE_ERROR) -> int:
    print(f"opwright: {message}", file=sys.stderr)
    return code
