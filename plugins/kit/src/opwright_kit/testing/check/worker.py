"""The process that runs the rules for another one, which outlives it (`IsolatedCheck`).

``python -m opwright_kit.testing.check.worker CONNECTION NOTES PARENT``: descriptors of a connection
and of a file for notes, and the id of the process that has started this one.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from multiprocessing.connection import Connection
from typing import Any, Final

from opwright.errors import OpwrightError
from opwright_kit.testing.check.package import PackageCheck
from opwright_kit.testing.results.notes import NoteFile

_PR_SET_PDEATHSIG: Final = 1


def serve(connection: Connection, notes: NoteFile) -> None:
    """Answer requests until the other side closes the connection.

    The first one, ``(distribution, options)``, says what is checked, and each further one is
    ``(method of PackageCheck, *arguments)``. The answer is ``(None, value)``, or name and text of
    an error.
    """
    distribution, options = connection.recv()
    check: PackageCheck | None = None
    try:
        check = PackageCheck(distribution, notes=notes, **options)
        card = check.card
        connection.send((None, (card.distribution, card.version, check.subjects)))
    except OpwrightError as error:
        connection.send((type(error).__name__, str(error)))
    while check is not None:
        try:
            method, *arguments = connection.recv()
        except EOFError:
            return
        value: Any = getattr(check, method)(*arguments)
        connection.send((None, value))


def _end_with(parent: int) -> None:
    """Have the system end this process with the one that started it, however that one ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


if __name__ == "__main__":
    _end_with(int(sys.argv[3]))
    serve(Connection(int(sys.argv[1])), NoteFile(int(sys.argv[2])))
