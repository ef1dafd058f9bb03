"""Defines the first line of a connection, which contains the rank and the run's secret token.

::

    opwright <token> <rank>     or "-" for a further connection of a process that has joined
    welcome                     or "refused" and "taken", after which the server closes
"""

from __future__ import annotations

import hmac
import re
import socket
import time
from typing import Final, NamedTuple

from opwright_dist.errors import DistError

MAX_HELLO_BYTES: Final = 256
WELCOME: Final = b"welcome\n"
REFUSED: Final = b"refused\n"
TAKEN: Final = b"taken\n"

_REASONS: Final = {
    REFUSED: "the server refused the token",
    TAKEN: "a process of this rank has already joined",
}
_HELLO: Final = re.compile(rb"opwright ([0-9a-f]{1,64}) (-|[0-9]{1,6})")
_CONNECT_S: Final = 30.0
_NAP_S: Final = 0.05


class Hello(NamedTuple):
    """The parsed first line.

    Attributes
    ----------
    token : bytes
    rank : int or None
    """

    token: bytes
    rank: int | None

    def has(self, token: str) -> bool:
        """Compare tokens in constant time."""
        return hmac.compare_digest(self.token, token.encode())


def read_hello(line: bytes) -> Hello | None:
    """Parse a first line, or return None if it is invalid."""
    match = _HELLO.fullmatch(line)
    if match is None:
        return None
    token, rank = match.groups()
    return Hello(token, None if rank == b"-" else int(rank))


def join(who: str, address: str, token: str, rank: int | None) -> socket.socket:
    """Connect to the server of a run, and return the connection once it is accepted.

    A server that is busy with other connections can close the connection early; the connection is
    then retried.

    Parameters
    ----------
    who : str
        The package, for errors.
    address : str
        ``host:port``.
    token : str
        The token of the run.
    rank : int or None
        Rank of this process; None for a further connection.

    Raises
    ------
    DistError
        If the server cannot be reached or refuses the connection.
    """
    end = time.monotonic() + _CONNECT_S
    name = "-" if rank is None else str(rank)
    while True:
        try:
            connection, answer = _greet(address, f"opwright {token} {name}\n".encode())
        except ConnectionRefusedError as error:
            raise unreachable(who, address, str(error)) from error
        except (OSError, ValueError) as error:
            connection, answer, reason = None, b"", str(error)
        else:
            reason = _REASONS.get(answer, "the server closed the connection")
        if connection is not None and answer == WELCOME:
            return connection
        if connection is not None:
            connection.close()
        if answer in _REASONS or time.monotonic() > end:
            raise unreachable(who, address, reason)
        time.sleep(_NAP_S)


def _greet(address: str, hello: bytes) -> tuple[socket.socket, bytes]:
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=_CONNECT_S)
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(hello)
        answer = b""
        while not answer.endswith(b"\n") and len(answer) < MAX_HELLO_BYTES:
            data = connection.recv(1)  # data after the line belongs to the caller
            if not data:
                break
            answer += data
    except OSError:
        connection.close()
        raise
    return connection, answer


def unreachable(who: str, address: str, reason: str) -> DistError:
    """Return the error of a process that cannot reach the server of its run."""
    return DistError(
        f"{who}: the rendezvous of the run must be reachable at {address}, got: {reason}; the "
        "launcher keeps it open until all processes have ended"
    )
