"""One connection of a server, with its receive and send buffers."""

from __future__ import annotations

import socket
import time
from collections import deque
from typing import Final

_READ_BYTES: Final = 1 << 18

MAX_WAITING_BYTES: Final = 1 << 16
"""Maximum unsent bytes; beyond this limit, reading pauses until the client reads its answers."""


class MalformedError(ValueError):
    """Raised for a message that violates the protocol; its connection is then closed."""


class Peer:
    """A connection that never blocks the thread of the server.

    Parameters
    ----------
    connection : socket
    rank : int or None
        The rank of its process, if known.
    has_joined : bool
        Whether the connection belongs to the run; otherwise its first line must contain the token.
    """

    def __init__(
        self, connection: socket.socket, rank: int | None = None, *, has_joined: bool = False
    ) -> None:
        connection.setblocking(False)
        self.connection = connection
        self.rank = rank
        self.has_joined = has_joined
        self.inbox = bytearray()
        self.is_broken = False
        self.opened_at = self.moved_at = time.monotonic()
        self._outbox: deque[memoryview] = deque()
        self._n_waiting = 0

    @property
    def waits_to_send(self) -> bool:
        """Return whether there is unsent data."""
        return bool(self._outbox)

    @property
    def is_full(self) -> bool:
        """Return whether there is too much unsent data to answer further messages."""
        return self._n_waiting > MAX_WAITING_BYTES

    def send(self, *parts: bytes) -> None:
        """Send bytes without blocking; the rest is buffered."""
        for part in parts:
            if part:
                self._outbox.append(memoryview(part))
                self._n_waiting += len(part)
        self.flush()

    def flush(self) -> None:
        """Send buffered data without blocking."""
        while self._outbox and not self.is_broken:
            part = self._outbox[0]
            try:
                n_sent = self.connection.send(part)
            except BlockingIOError:
                return
            except OSError:
                self.is_broken = True
                return
            self.moved_at = time.monotonic()
            self._n_waiting -= n_sent
            if n_sent == len(part):
                self._outbox.popleft()
            else:
                self._outbox[0] = part[n_sent:]

    def receive(self) -> None:
        """Read available data; at the end of the stream, mark the connection as broken."""
        try:
            data = self.connection.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.is_broken = True
        self.inbox += data
        self.moved_at = time.monotonic()
