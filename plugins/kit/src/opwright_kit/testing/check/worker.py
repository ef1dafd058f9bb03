"""The process that runs the rules for another one, which outlives it (`IsolatedCheck`).

``python -m opwright_kit.testing.check.worker CONNECTION NOTES PARENT``: descriptors of a connection
and of a file for notes, and the id of the process that has started this one.
"""

from __future__ import annotations

import sys
from multiprocessing.connection import Connection

from opwright.commands import end_with_parent
from opwright.errors import OpwrightError
from opwright_kit.requests import serve_requests
from opwright_kit.testing.check.package import PackageCheck
from opwright_kit.testing.results.notes import NoteFile


def check_for(connection: Connection, notes: NoteFile) -> None:
    """Answer requests until the other side closes the connection.

    The first one, ``(distribution, options)``, says what is checked, and each further one is
    ``(method of PackageCheck, *arguments)``. The answer is ``(None, value)``, or name and text of
    an error.
    """
    distribution, options = connection.recv()
    try:
        check = PackageCheck(distribution, notes=notes, **options)
        card = check.card
        connection.send((None, (card.distribution, card.version, check.subjects)))
    except OpwrightError as error:
        connection.send((type(error).__name__, str(error)))
        return
    serve_requests(
        connection, lambda method, *arguments: (None, getattr(check, method)(*arguments))
    )


if __name__ == "__main__":
    end_with_parent(int(sys.argv[3]))
    check_for(Connection(int(sys.argv[1])), NoteFile(int(sys.argv[2])))
