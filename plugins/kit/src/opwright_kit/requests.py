"""Answers the requests of the process that has started this one."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any


def serve_requests(connection: Connection, answer: Callable[..., Any]) -> None:
    """Send ``answer(*request)`` for every request, until the other side closes the connection."""
    while True:
        try:
            request = connection.recv()
        except EOFError:
            return
        connection.send(answer(*request))
