"""The commands of the core, and those that installed packages add."""

from __future__ import annotations

import importlib
from typing import Any, Final, NamedTuple

from opwright.describe.names import hint
from opwright.errors import CommandError
from opwright.foreign import describe_error, import_object
from opwright.plugins.scan import Source, scan
from opwright.registry.advice import find_requirement

GROUP: Final = "opwright.commands"
"""The entry-point group of commands."""


class Command(NamedTuple):
    """A command of ``opwright``; an entry point of the group ``opwright.commands`` names one.

    Attributes
    ----------
    summary : str
        What it does, in one line.
    module : str
        Has ``add_arguments(parser)`` and ``run(args) -> exit code``; imported at first use.
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
    "doctor": Command("find what is broken, and the command that fixes it", "opwright.cli.doctor"),
}
"""The commands of the core, by name."""


def list_commands() -> dict[str, Command]:
    """Return all commands that can be loaded, by name, without parts of others, which have a dot.

    `get_command` reports one that cannot be loaded.
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
    """Return one command; no other one is loaded.

    CommandError for an unknown name, naming the nearest, or what to install; where the package that
    adds the command is broken, or two packages add one of this name.
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
