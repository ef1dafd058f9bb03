"""The commands of the core and of installed packages, and their shared code.

A wrong argument raises CommandError (exit code 2), whereas a finding gives exit code 1. Commands
print text that is safe for a terminal, or only one JSON document.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import importlib
import io
import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, NoReturn, TextIO, cast

from opwright.context.context import Context
from opwright.context.guard import setting
from opwright.discovery.scan import Source, scan
from opwright.errors import (
    CommandError,
    KernelError,
    OpwrightError,
    OutOfMemoryError,
    PluginError,
    RegistrationError,
)
from opwright.foreign import describe_error, import_object, show
from opwright.messages.names import hint
from opwright.packages.package import find_requirement
from opwright.packages.quarantine import advise_plugin

GROUP: Final = "opwright.commands"
"""The entry-point group of commands."""

_OF_PLUGINS: Final = (PluginError, RegistrationError, KernelError, OutOfMemoryError)
"""Errors caused by installed packages or the machine, wherever they occur."""

_documents: ContextVar[list[str] | None] = ContextVar("opwright_documents", default=None)


class Command(NamedTuple):
    """A command of ``opwright``, named by an entry point of the group ``opwright.commands``.

    Attributes
    ----------
    summary : str
        A one-line summary.
    module : str
        The module with ``add_arguments(parser)`` and ``run(args) -> exit code``, imported at first
        use.
    """

    summary: str
    module: str

    def load(self) -> Any:
        """Import the module."""
        return importlib.import_module(self.module)


OWN: Final = {
    "plugins": Command("list the installed plugins and their state", "opwright.cli.plugins"),
    "ops": Command("list the operators, or show one as a page", "opwright.cli.ops"),
    "kernels": Command(
        "show the installed kernels by operator, device and dtype", "opwright.cli.kernels"
    ),
    "passes": Command(
        "list the passes that rewrite a plan, in the order in which they run", "opwright.cli.passes"
    ),
    "explain": Command("show which kernel computes an operator, and why", "opwright.cli.explain"),
    "bundle": Command(
        "write a saved program as a file that runs without Python", "opwright.cli.bundle"
    ),
    "doctor": Command("find what is broken, and the command that fixes it", "opwright.cli.doctor"),
}
"""The commands of the core, by name."""


def list_commands() -> dict[str, Command]:
    """Return all loadable commands by name, except subcommands, whose names have a dot.

    `get_command` reports a command that cannot be loaded.
    """
    commands = dict(OWN)
    for point in sorted(scan(group=GROUP), key=lambda point: point.name):
        if "." in point.name or point.name in OWN:
            continue
        try:
            commands[point.name] = _load(point)
        except CommandError:
            continue
    return commands


def get_command(name: str) -> Command:
    """Return one command, without loading other commands.

    Raises CommandError if the name is unknown, with a similar name or the package to install, if
    the package of the command is broken, or if two packages add a command of this name.
    """
    if name in OWN:
        return OWN[name]
    points = [point for point in scan(group=GROUP) if point.name == name]
    if not points:
        raise CommandError(_describe_unknown(name))
    if len(points) > 1:
        owners = ", ".join(sorted(point.distribution for point in points))
        raise CommandError(
            f"{name}: one package must provide a command, got {owners}; uninstall one of them"
        )
    return _load(points[0])


def _describe_unknown(name: str) -> str:
    command, dot, part = name.partition(".")
    text = f"unknown command, got {name!r}{hint(name, list_commands(), 'commands')}"
    if dot:
        text = f"{command}: a package must provide its {part}, got none"
    tools = None if scan(group=GROUP) else find_requirement("kit")
    return text if tools is None else f"{text}; to get more commands: pip install {tools}"


def _load(point: Source) -> Command:
    try:
        command = import_object(point.target)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise CommandError(
            f"{point.name}: its package must be importable, got {describe_error(error)} from "
            f"{point.distribution}; reinstall or uninstall it"
        ) from error
    if not isinstance(command, Command):
        raise CommandError(
            f"{point.name}: an entry point of {GROUP} must name an opwright.commands.Command, got "
            f"{command!r} from {point.distribution}"
        )
    return command


class Parser(argparse.ArgumentParser):
    """Raises an error where argparse would print and exit, so commands fail in only one way."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **options})

    def error(self, message: str) -> NoReturn:
        """Raise CommandError for arguments that are missing or of the wrong type."""
        command = self.prog.rpartition(" ")[2]
        raise CommandError(f"{command}: {message}; see: {self.prog} --help")


@contextlib.contextmanager
def resolving() -> Iterator[None]:
    """Convert errors to CommandError in a block that looks up names from the command line.

    Errors of plugins are re-raised unchanged.
    """
    try:
        yield
    except (CommandError, *_OF_PLUGINS):
        raise
    except OpwrightError as error:
        raise CommandError(str(error)) from error


def check_device(command: str, device: str, known: Iterable[str], context: Context) -> None:
    """Raise CommandError for an unknown device, with the package to install or a similar name."""
    names = list(known)
    if device in names:
        return
    advice = advise_plugin(device, context.report)
    way_out = f"; to get it: {advice}" if advice else hint(device, names, "devices")
    raise CommandError(
        f"{command}: a device must have a kernel or a plugin, got {device!r}{way_out}"
    )


def print_json(data: object) -> None:
    """Print the document of a command with ``--json``, as the only output."""
    text = json.dumps(data, indent=2)
    documents = _documents.get()
    if documents is None:
        print(text)
    else:
        documents.append(text)


def print_report(args: argparse.Namespace, data: object, lines: Iterable[str]) -> None:
    """Print plain data with ``--json``, otherwise `lines`, which are created only then."""
    if args.json:
        print_json(data)
    else:
        print(*lines, sep="\n")


@contextlib.contextmanager
def writing(as_json: bool) -> Iterator[None]:
    """Run a command within the block.

    Escape sequences in its text are shown, not executed, since plugins provide much of it. With
    `as_json` only the document that `print_json` prints is written to standard output; text that
    plugins print during import, also from C, goes to standard error.
    """
    if not as_json:
        with contextlib.redirect_stdout(cast("TextIO", _Shown(sys.stdout))):
            yield
        return
    printed, documents = io.StringIO(), list[str]()
    try:
        with (
            _descriptor_turned(),
            contextlib.redirect_stdout(printed),
            setting(_documents, documents),
        ):
            yield
    except BaseException:
        sys.stderr.write(show(printed.getvalue()))
        raise
    if not documents:  # a command of another package may print its document itself
        print(printed.getvalue(), end="")
        return
    sys.stderr.write(show(printed.getvalue()))
    print("\n".join(documents))


@contextlib.contextmanager
def _descriptor_turned() -> Iterator[None]:
    """Redirect file descriptor 1 to standard error, because C code writes to the descriptor."""
    try:
        output = os.dup(1)
        os.dup2(2, 1)
    except OSError:  # one of these is closed
        yield
        return
    try:
        yield
    finally:
        ctypes.CDLL(None).fflush(None)
        os.dup2(output, 1)
        os.close(output)


class _Shown:
    """A text stream that escapes terminal control sequences."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(show(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
