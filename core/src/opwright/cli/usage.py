"""Errors of the command line (exit code 2), as distinct from the findings of a command (1)."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, Final, NoReturn

from opwright.describe.names import hint
from opwright.errors import (
    CommandError,
    KernelError,
    OpwrightError,
    OutOfMemoryError,
    PluginError,
    RegistrationError,
)
from opwright.plugins.context import Context
from opwright.registry.advice import advise_plugin

_OF_PLUGINS: Final = (PluginError, RegistrationError, KernelError, OutOfMemoryError)
"""Faults of installed packages, or of the machine, wherever they appear."""


class Parser(argparse.ArgumentParser):
    """Raises where argparse would print and exit, so that there is one way to fail."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **options})

    def error(self, message: str) -> NoReturn:
        """Raise CommandError for arguments that are missing or of another type."""
        command = self.prog.rpartition(" ")[2]
        raise CommandError(f"{command}: {message}; see: {self.prog} --help")


@contextlib.contextmanager
def resolving() -> Iterator[None]:
    """Raise errors in this block as CommandError: it looks up names from the command line.

    Errors of plugins are raised unchanged.
    """
    try:
        yield
    except (CommandError, *_OF_PLUGINS):
        raise
    except OpwrightError as error:
        raise CommandError(str(error)) from error


def check_device(command: str, device: str, known: Iterable[str], context: Context) -> None:
    """Raise CommandError for an unknown device, naming what to install, or the nearest one."""
    names = list(known)
    if device in names:
        return
    advice = advise_plugin(device, context.report)
    way_out = f"; to get it: {advice}" if advice else hint(device, names, "devices")
    raise CommandError(
        f"{command}: no kernel and no plugin is for the device, got {device!r}{way_out}"
    )
