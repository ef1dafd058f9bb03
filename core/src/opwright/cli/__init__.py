"""The command ``opwright`` lists installed objects, explains kernel choices and finds faults.

Each command is a module with ``add_arguments(parser)`` and ``run(args) -> exit code``. Other
packages add commands, see `opwright.commands`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from opwright._version import __version__
from opwright.cli.command import Command, Parser, get_command, list_commands, print_json, writing
from opwright.errors import CommandError, OpwrightError, SettingError
from opwright.foreign import show
from opwright.messages.names import hint

_DESCRIPTION = "Shows what is installed, why a kernel is chosen, and what is broken."

_USAGE_ERROR = 2
_INTERRUPTED = 130
"""The exit code of an interrupted process in shells."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code: 0 for success, 1 for a problem, 2 for wrong usage.

    `argv` defaults to the arguments of the process. A failure is printed to standard error, and
    with ``--json`` also as an object to standard output.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    command = next((word for word in words if not word.startswith("-")), None)
    try:
        with writing("--json" in words):
            code = _run(command, words)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # `opwright kernels | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt as interrupt:
        notes = getattr(interrupt, "__notes__", ())  # such as the name of the plugin being loaded
        text = "\n  ".join([f"{command}: interrupted", *notes])
        return _fail(interrupt, text, _INTERRUPTED, words)
    except OpwrightError as error:
        # The command line or an environment variable is invalid.
        is_wrong_usage = isinstance(error, (CommandError, SettingError))
        return _fail(error, str(error), _USAGE_ERROR if is_wrong_usage else 1, words)
    except OSError as error:
        _drop_unwritten()
        return _fail(error, f"{command}: {error}", 1, words)


def _drop_unwritten() -> None:
    """Discard output that cannot be written, as on a full disk; Python would retry it at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(command: str | None, words: list[str]) -> int:
    chosen = None if command is None else get_command(command)
    parser, options = _make_parser(command, chosen)
    args, unknown = parser.parse_known_args(words)
    if unknown:
        raise CommandError(_unknown_argument(command, unknown[0], options))
    if chosen is None:
        parser.print_help()
        return _USAGE_ERROR
    return int(chosen.load().run(args))


def _make_parser(
    name: str | None, command: Command | None
) -> tuple[argparse.ArgumentParser, list[str]]:
    """Create the parser, and list the options of the given command.

    Modules of other commands are not imported; without a command, all commands are listed.
    """
    parser = Parser(prog="opwright", description=_DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"opwright {__version__}")
    options = ["--help", "--version"]
    subparsers: Any = parser.add_subparsers(metavar="COMMAND", dest="command")
    if name is None or command is None:
        for other, (summary, _) in list_commands().items():
            subparsers.add_parser(other, help=summary)
        return parser, options
    summary = command.summary
    sub = subparsers.add_parser(name, help=summary, description=f"{summary.capitalize()}.")
    command.load().add_arguments(sub)
    sub.add_argument("--json", action="store_true", help="print JSON, for machines")
    options = [max(a.option_strings, key=len) for a in sub._actions if a.option_strings]
    return parser, options


def _unknown_argument(command: str | None, word: str, options: list[str]) -> str:
    if not word.startswith("-"):
        options = []
    near = hint(word.partition("=")[0], options, "options") if options else ""
    return f"{command or 'opwright'}: unknown argument, got {word!r}{near or '; see: --help'}"


def _fail(error: BaseException, message: str, code: int, words: list[str]) -> int:
    if "--json" in words:
        cause = error.__cause__
        is_wrapped = isinstance(error, CommandError) and isinstance(cause, OpwrightError)
        kind = type(cause if is_wrapped else error).__name__
        print_json({"error": {"kind": kind, "message": message}})
    print(show(f"opwright: {message}"), file=sys.stderr)
    return code
