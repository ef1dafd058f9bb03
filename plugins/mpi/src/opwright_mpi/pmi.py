"""Serves PMI, by which the processes of an MPI library find each other when they start.

The protocol is that of MPICH's PMI-1: a process connects, sends its number, puts its address into a
table, waits for all at a barrier, and reads the addresses of the others. A line of ``key=value``
pairs is a message.
"""

from __future__ import annotations

import os
import re
import secrets
import selectors
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Final

from opwright_dist import DistError
from opwright_dist.launching import Meeting

RANK_VARIABLE: Final = "OPWRIGHT_MPI_RANK"
"""Number of a process that was started for a `PmiServer`."""

RANKS_VARIABLE: Final = "OPWRIGHT_MPI_RANKS"
"""How many such processes there are."""

LAUNCHER_VARIABLE: Final = "OPWRIGHT_MPI_LAUNCHER"
"""Process id of ``opwright-mpi run``, which sees how each of its processes ends."""

_MAX_LINE_BYTES: Final = 8192
_SEND_TIMEOUT_S: Final = 10.0
_LIMITS: Final = "kvsname_max=256 keylen_max=64 vallen_max=1024"
_PAIR: Final = re.compile(r"(\w+)=(\S*)")


class _Peer:
    """A process that is connected: what it has sent, without an end of line so far."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.rank: int | None = None
        self.pending = b""

    def send(self, text: str) -> None:
        self.connection.sendall(text.encode() + b"\n")


class PmiServer(Meeting):
    """Where the processes of one run find each other.

    Parameters
    ----------
    nodes : sequence of int
        For each process the number of the machine on which it runs: those on one machine share
        memory.
    address : str
        Of this machine, as the others reach it.

    Attributes
    ----------
    joined, finalized, aborted : set of int
        Processes that have started MPI, that have finalized it, and that have ended all by it.
    """

    def __init__(self, nodes: Sequence[int], address: str = "127.0.0.1") -> None:
        self.size = len(nodes)
        self._table = {"PMI_process_mapping": map_nodes(nodes)}
        self._waiting: dict[int, _Peer] = {}
        # New for each run: MPICH names shared memory by it, which a killed process leaves behind.
        self._name = f"opwright_{os.getpid()}_{secrets.token_hex(8)}"
        self.joined: set[int] = set()
        self.finalized: set[int] = set()
        self.aborted: set[int] = set()
        try:
            self._listener = socket.create_server((address, 0))
        except OSError as error:
            raise DistError(
                f"opwright-mpi: the address must be one of this machine, got {address!r}: {error}; "
                "give one by which the other machines reach this one"
            ) from error
        self._waker, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, name="opwright-pmi", daemon=True)
        self._thread.start()

    def environment(self, rank: int) -> dict[str, str]:
        """Return the variables with which a process is started, or which it sets before MPI."""
        host, port = self._listener.getsockname()[:2]
        return {
            "PMI_PORT": f"{host}:{port}",
            "PMI_ID": str(rank),
            RANK_VARIABLE: str(rank),
            RANKS_VARIABLE: str(self.size),
        }

    def close(self) -> None:
        """End serving; processes that still wait for others fail."""
        if self._thread.is_alive():
            self._waker.send(b"x")
            self._thread.join()

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector, self._listener, self._waker, self._woken:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj is self._woken:
                        self._close_peers(selector)
                        return
                    if key.fileobj is self._listener:
                        self._accept(selector)
                    elif not self._read(key.data):
                        selector.unregister(key.fileobj)
                        key.data.connection.close()

    def _close_peers(self, selector: selectors.BaseSelector) -> None:
        for key in list(selector.get_map().values()):
            if key.data is not None:
                key.data.connection.close()

    def _accept(self, selector: selectors.BaseSelector) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # it has gone meanwhile
            return
        connection.settimeout(_SEND_TIMEOUT_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(connection, selectors.EVENT_READ, _Peer(connection))

    def _read(self, peer: _Peer) -> bool:
        """Answer what a process has sent; False where its connection has come to its end."""
        try:
            data = peer.connection.recv(65_536)
            *lines, peer.pending = (peer.pending + data).split(b"\n")
            for line in lines:
                if not self._answer(peer, dict(_PAIR.findall(line.decode("ascii", "replace")))):
                    return False
        except OSError:
            return False
        return bool(data) and len(peer.pending) <= _MAX_LINE_BYTES

    def _answer(self, peer: _Peer, message: Mapping[str, str]) -> bool:
        """Answer one message; False for one that is not of the protocol."""
        command = message.get("cmd", "")
        if peer.rank is None:
            return command == "initack" and self._greet(peer, message.get("pmiid", ""))
        answer = _ANSWERS.get(command)
        return answer is not None and answer(self, peer, message)

    def _greet(self, peer: _Peer, number: str) -> bool:
        """Take a process in by its number, unless there is no such one or it is taken."""
        if not number.isdecimal() or int(number) >= self.size or int(number) in self.joined:
            return False
        peer.rank = int(number)
        self.joined.add(peer.rank)
        peer.send("cmd=initack rc=0")
        for key, value in (("size", self.size), ("rank", number), ("debug", 0)):
            peer.send(f"cmd=set {key}={value}")
        return True

    def _name_table(self, peer: _Peer, _: Mapping[str, str]) -> bool:
        return _reply(peer, f"my_kvsname kvsname={self._name} rc=0")

    def _count(self, peer: _Peer, _: Mapping[str, str]) -> bool:
        return _reply(peer, f"universe_size size={self.size} rc=0")

    def _put(self, peer: _Peer, message: Mapping[str, str]) -> bool:
        self._table[message.get("key", "")] = message.get("value", "")
        return _reply(peer, "put_result rc=0 msg=success")

    def _get(self, peer: _Peer, message: Mapping[str, str]) -> bool:
        value = self._table.get(message.get("key", ""))
        if value is None:
            return _reply(peer, "get_result rc=-1 msg=key_not_found value=unknown")
        return _reply(peer, f"get_result rc=0 msg=success value={value}")

    def _enter_barrier(self, peer: _Peer, _: Mapping[str, str]) -> bool:
        self._waiting[peer.rank or 0] = peer
        if len(self._waiting) == self.size:
            waiting, self._waiting = self._waiting, {}
            for each in waiting.values():
                _try_reply(each, "barrier_out rc=0")
        return True

    def _finalize(self, peer: _Peer, _: Mapping[str, str]) -> bool:
        self.finalized.add(peer.rank or 0)
        return _reply(peer, "finalize_ack rc=0")

    def _abort(self, peer: _Peer, _: Mapping[str, str]) -> bool:
        self.aborted.add(peer.rank or 0)
        return True


_Answer = Callable[[PmiServer, _Peer, Mapping[str, str]], bool]


def _reply(peer: _Peer, text: str) -> bool:
    peer.send(f"cmd={text}")
    return True


def _try_reply(peer: _Peer, text: str) -> None:
    """Reply, unless the process has gone: what comes of that shows at its own connection."""
    try:
        _reply(peer, text)
    except OSError:
        peer.pending = b""


def _always(text: str) -> _Answer:
    return lambda server, peer, message: _reply(peer, text)


_ANSWERS: Final[Mapping[str, _Answer]] = {
    "init": _always("response_to_init pmi_version=1 pmi_subversion=1 rc=0"),
    "get_maxes": _always(f"maxes {_LIMITS} rc=0"),
    "get_appnum": _always("appnum appnum=0 rc=0"),
    "get_my_kvsname": PmiServer._name_table,
    "get_universe_size": PmiServer._count,
    "put": PmiServer._put,
    "get": PmiServer._get,
    "barrier_in": PmiServer._enter_barrier,
    "finalize": PmiServer._finalize,
    "abort": PmiServer._abort,
}


def map_nodes(nodes: Sequence[int]) -> str:
    """Return which process runs on which machine, as PMI writes it: (node, nodes, processes)."""
    blocks = [(node, len(list(same))) for node, same in groupby(nodes)]
    return "(vector," + ",".join(f"({node},1,{count})" for node, count in blocks) + ")"
