"""A message server for the processes of one run that tolerates arbitrary connections.

One thread handles all connections and never waits for a single connection. A message is a line,
followed by bytes in some protocols. Network clients must first present the token of the run.
"""

from __future__ import annotations

import secrets
import selectors
import socket
import threading
import time
from abc import abstractmethod
from collections import deque
from typing import Any, Final

from opwright_dist.errors import DistError
from opwright_dist.groups import Rendezvous
from opwright_dist.rendezvous.joining import (
    MAX_HELLO_BYTES,
    REFUSED,
    TAKEN,
    WELCOME,
    read_hello,
)
from opwright_dist.rendezvous.peer import MalformedError, Peer

_TICK_S: Final = 1.0
_HELLO_S: Final = 10.0
"""Time limit in seconds for presenting the token."""

_STALL_S: Final = 30.0
"""Time limit in seconds for an incomplete message or an unread answer."""

_MAX_STRANGERS: Final = 128
"""Maximum number of connections without a token; a further connection replaces the oldest."""

_BACKLOG: Final = 1024


class Meeting(Rendezvous):
    """A rendezvous that tracks which processes have connected and finished.

    Attributes
    ----------
    size : int
        The number of processes.
    joined, finalized : set of int
        Processes that have connected, and processes that have finished.
    """

    size: int
    joined: set[int]
    finalized: set[int]

    def admit(self, rank: int) -> tuple[dict[str, str], socket.socket | None]:
        """Return the environment and connection for a process started on this machine.

        Returns
        -------
        dict, socket or None
            Environment variables, and the connection that the process inherits, if any.
        """
        return self.environment(rank), None


class Server(Meeting):
    """Answers the messages of a protocol that a subclass defines.

    The constructor starts serving, so a subclass sets up its state before calling it.

    Parameters
    ----------
    who : str
        The package, for errors.
    size : int
        The number of processes; each of them joins once.
    address : str or None
        The address at which other processes reach this machine. With None, processes inherit their
        connections, and no port is opened.

    Raises
    ------
    DistError
        If the server cannot listen at the address.
    """

    max_line_bytes: int = 8192
    """Maximum length of a line."""

    max_data_bytes: int = 0
    """Maximum bytes after a line."""

    def __init__(self, who: str, size: int, address: str | None) -> None:
        self.size = size
        self.token = secrets.token_hex(16)
        self.joined: set[int] = set()
        self.finalized: set[int] = set()
        self._peers: dict[Peer, None] = {}
        self._arrivals: deque[Peer] = deque()
        self._taken: set[int] = set()
        self._is_closed = False
        self._listener = None if address is None else _listen(who, address)
        self._is_listening = False
        self._selector = selectors.DefaultSelector()
        self._waker, self._woken = socket.socketpair()
        self._woken.setblocking(False)
        self._thread = threading.Thread(target=self._serve, name=f"{who}-server", daemon=True)
        self._thread.start()

    # ---- Implemented by protocols

    @abstractmethod
    def parse(self, line: bytes) -> tuple[Any, int]:
        """Parse a line into a message and its number of extra bytes; may raise `MalformedError`."""

    @abstractmethod
    def answer(self, peer: Peer, message: Any, data: bytes) -> None:
        """Handle a message; raise `MalformedError` if it violates the protocol."""

    def welcome(self, peer: Peer) -> None:
        """Record that a connection has presented the token."""

    def leave(self, peer: Peer) -> None:
        """Record that a joined connection has ended."""

    def tick(self, now: float) -> float:
        """Handle timeouts; return the seconds until the next call."""
        del now
        return _TICK_S

    # ---- Called by launchers

    @property
    def address(self) -> str:
        """The address of the server, ``host:port``."""
        if self._listener is None:
            raise DistError("rendezvous: the server must have an address to listen at, got None")
        host, port = self._listener.getsockname()[:2]
        return f"{host}:{port}"

    def open_pair(self, rank: int) -> socket.socket:
        """Return the client end of a new connection for process `rank`."""
        ours, theirs = socket.socketpair()
        self._arrivals.append(Peer(ours, rank, has_joined=True))
        self._waker.send(b"x")
        return theirs

    def close(self) -> None:
        """Stop serving; processes that still wait for other processes fail."""
        if self._is_closed:
            return
        self._is_closed = True
        with self._waker, self._woken:
            self._waker.send(b"x")
            self._thread.join()

    # ---- The thread

    def _serve(self) -> None:
        with self._selector:
            self._selector.register(self._woken, selectors.EVENT_READ)
            self._listen_again()
            checked_at, wait_s = time.monotonic(), _TICK_S
            while not self._is_closed:
                for key, _ in self._selector.select(min(wait_s, _TICK_S)):
                    self._attend(key)
                now = time.monotonic()
                wait_s = self.tick(now)
                if now - checked_at > _TICK_S:
                    checked_at = now
                    self._drop_late(now)
                    self._listen_again()
                self._follow()
            for peer in list(self._peers):
                self._drop(peer)
            if self._listener is not None:
                self._listener.close()

    def _attend(self, key: selectors.SelectorKey) -> None:
        if key.fileobj is self._woken:
            self._woken.recv(_BACKLOG)
            while self._arrivals:
                self._add(self._arrivals.popleft())
        elif key.fileobj is self._listener:
            self._accept(self._listener)
        elif key.data in self._peers:
            if key.events & selectors.EVENT_READ:
                key.data.receive()
            self._process(key.data)

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except (BlockingIOError, ConnectionError):  # it has disconnected meanwhile
            return
        except OSError:  # the limit of open files is reached
            self._selector.unregister(listener)
            self._is_listening = False
            return
        strangers = [peer for peer in self._peers if not peer.has_joined]
        if len(strangers) >= _MAX_STRANGERS:
            self._drop(strangers[0])
        self._add(Peer(connection))

    def _listen_again(self) -> None:
        if self._listener is not None and not self._is_listening:
            self._selector.register(self._listener, selectors.EVENT_READ)
            self._is_listening = True

    def _add(self, peer: Peer) -> None:
        self._peers[peer] = None
        self._selector.register(peer.connection, selectors.EVENT_READ, peer)

    def _process(self, peer: Peer) -> None:
        """Answer complete messages as long as the client reads the answers."""
        try:
            peer.flush()
            while not peer.is_full and self._answer_next(peer):
                pass
        except MalformedError:
            peer.is_broken = True

    def _answer_next(self, peer: Peer) -> bool:
        """Answer one message; return False if none is complete."""
        longest = self.max_line_bytes if peer.has_joined else MAX_HELLO_BYTES
        length = peer.inbox.find(b"\n", 0, longest + 1)
        if length < 0:
            if len(peer.inbox) > longest:
                raise MalformedError(f"a line must have at most {longest} bytes")
            return False
        line = bytes(peer.inbox[:length])
        if not peer.has_joined:
            del peer.inbox[: length + 1]
            self._greet(peer, line)
            return True
        message, n_bytes = self.parse(line)
        if not 0 <= n_bytes <= self.max_data_bytes:
            raise MalformedError(f"a message must have at most {self.max_data_bytes} bytes")
        end = length + 1 + n_bytes
        if len(peer.inbox) < end:
            return False
        data = bytes(peer.inbox[length + 1 : end])
        del peer.inbox[:end]
        self.answer(peer, message, data)
        return True

    def _greet(self, peer: Peer, line: bytes) -> None:
        hello = read_hello(line)
        if hello is None or not hello.has(self.token):
            peer.send(REFUSED)
            raise MalformedError("the token must match the token of the run")
        if hello.rank is not None:
            if hello.rank >= self.size or hello.rank in self._taken:
                peer.send(TAKEN)
                raise MalformedError("a rank must join only once")
            self._taken.add(hello.rank)
        peer.rank = hello.rank
        peer.has_joined = True
        peer.send(WELCOME)
        self.welcome(peer)

    def _follow(self) -> None:
        """Close broken connections, and register the events to wait for."""
        for key in list(self._selector.get_map().values()):
            peer = key.data
            if peer is None:
                continue
            if peer.is_broken:
                self._drop(peer)
                continue
            if not peer.is_full and not key.events & selectors.EVENT_READ:
                self._process(peer)  # messages that arrived before it was full
            events = 0 if peer.is_full else selectors.EVENT_READ
            events |= selectors.EVENT_WRITE if peer.waits_to_send else 0
            if events != key.events:
                self._selector.modify(peer.connection, events, peer)

    def _drop_late(self, now: float) -> None:
        for peer in self._peers:
            if not peer.has_joined:
                peer.is_broken |= now - peer.opened_at > _HELLO_S
            elif peer.inbox or peer.waits_to_send:
                peer.is_broken |= now - peer.moved_at > _STALL_S

    def _drop(self, peer: Peer) -> None:
        del self._peers[peer]
        self._selector.unregister(peer.connection)
        peer.connection.close()
        if peer.has_joined:
            self.leave(peer)


def _listen(who: str, address: str) -> socket.socket:
    try:
        listener = socket.create_server((address, 0), backlog=_BACKLOG)
    except OSError as error:
        raise DistError(
            f"{who}: the address must belong to this machine, got {address!r}: {error}; "
            "pass an address at which other machines reach this machine"
        ) from error
    listener.setblocking(False)
    return listener
