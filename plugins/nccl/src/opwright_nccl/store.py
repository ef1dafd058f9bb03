"""The store, through which processes exchange ids, bytes and progress.

The launcher runs the store as a server, to which each process has a TCP connection. A message is a
line of JSON that contains the number of bytes that follow it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import math
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from opwright_dist.rendezvous import MalformedError, Peer, Server, join, unreachable

STORE_VARIABLE: Final = "OPWRIGHT_NCCL_STORE"
"""Variable with ``host:port`` of the store of a run."""

TOKEN_VARIABLE: Final = "OPWRIGHT_NCCL_TOKEN"
RANK_VARIABLE: Final = "OPWRIGHT_NCCL_RANK"
RANKS_VARIABLE: Final = "OPWRIGHT_NCCL_RANKS"

FINISHED: Final = "finished"
LOST: Final = "lost"

GOODBYE: Final = "goodbye"
"""The key with which finished processes wait for the other processes."""

_WHO: Final = "opwright-nccl"
_LONGEST_LINE: Final = 1 << 20
_LONGEST_DATA: Final = 1 << 31
_LONGEST_KEY: Final = 1024
_MAX_KEYS: Final = 1 << 16
_MAX_KEPT_BYTES: Final = 1 << 28
"""Maximum total size of all values in bytes."""

_PATIENCE_S: Final = 15.0
"""Extra seconds to wait for an answer, beyond the requested timeout."""


class _Gathering:
    """The data that the processes of a group have sent, kept until every process has received it.

    Attributes
    ----------
    members : tuple of int
        The ranks of the group.
    parts : dict of int to bytes
        The data of each process, by rank in the group.
    waiting : dict of int to (Peer, float)
        Pending answers by rank, with deadlines.
    n_taken : int
        The number of processes that have received the data.
    """

    def __init__(self, members: tuple[int, ...]) -> None:
        self.members = members
        self.parts: dict[int, bytes] = {}
        self.waiting: dict[int, tuple[Peer, float]] = {}
        self.n_taken = 0

    def missing(self) -> list[int]:
        """Return the ranks that have not sent data."""
        return [rank for place, rank in enumerate(self.members) if place not in self.parts]


class Store(Server):
    """The rendezvous of the processes of one run.

    Parameters
    ----------
    size : int
        Number of processes.
    address : str
        Address at which other processes reach this machine.

    Attributes
    ----------
    ended : dict of int to str
        ``"finished"`` for processes that have finished, and ``"lost"`` for processes whose
        connection has ended.

    Raises
    ------
    DistError
        If the server cannot listen at the address.
    """

    max_line_bytes = _LONGEST_LINE
    max_data_bytes = _LONGEST_DATA

    def __init__(self, size: int, address: str = "127.0.0.1") -> None:
        self.ended: dict[int, str] = {}
        self._values: dict[str, bytes] = {}
        self._n_kept_bytes = 0
        self._gatherings: dict[str, _Gathering] = {}
        super().__init__(_WHO, size, address)

    def environment(self, rank: int) -> dict[str, str]:
        """Return the environment variables for starting a process."""
        return {
            STORE_VARIABLE: self.address,
            TOKEN_VARIABLE: self.token,
            RANK_VARIABLE: str(rank),
            RANKS_VARIABLE: str(self.size),
        }

    def parse(self, line: bytes) -> tuple[dict[str, Any], int]:
        """Parse a line of JSON."""
        return _parse(line)

    def welcome(self, peer: Peer) -> None:
        """Record that a process has connected."""
        if peer.rank is not None:
            self.joined.add(peer.rank)

    def leave(self, peer: Peer) -> None:
        """Drop the requests of a closed connection; an unfinished process is recorded as lost."""
        for gathering in self._gatherings.values():
            for place in [p for p, (each, _) in gathering.waiting.items() if each is peer]:
                del gathering.waiting[place]
        if peer.rank is not None:
            self._end(peer.rank, LOST)

    def tick(self, now: float) -> float:
        """Answer requests that have timed out."""
        ends = [math.inf]
        for key in list(self._gatherings):
            gathering = self._gatherings[key]
            for place, (_, end) in list(gathering.waiting.items()):
                if end <= now:
                    self._give_up(gathering, place)
                else:
                    ends.append(end)
        return min(ends) - now

    def answer(self, peer: Peer, message: dict[str, Any], data: bytes) -> None:
        """Handle one request."""
        what = message.get("what")
        if what == "gather":
            self._gather(peer, message, data)
        elif what == "put":
            self._put(_check_key(message.get("key")), data)
            _send(peer, {})
        elif what == "get":
            keys: Any = message.get("keys")
            _require(isinstance(keys, list) and len(keys) <= 2 * self.size + 2, "keys", keys)
            values = [self._values.get(_check_key(key)) for key in keys]
            texts = [None if v is None else v.decode(errors="replace") for v in values]
            _send(peer, {"values": texts, "ended": self.ended})
        elif what == "bye":
            if peer.rank is not None:
                self._end(peer.rank, FINISHED)
            _send(peer, {})
        else:
            _require(False, "what", what)

    def _put(self, key: str, value: bytes) -> None:
        """Store a value; drop the oldest values beyond the limits."""
        _require(len(value) <= _MAX_KEPT_BYTES, "bytes", len(value))
        self._n_kept_bytes += len(value) - len(self._values.pop(key, b""))
        self._values[key] = value
        while len(self._values) > _MAX_KEYS or self._n_kept_bytes > _MAX_KEPT_BYTES:
            self._n_kept_bytes -= len(self._values.pop(next(iter(self._values))))

    def _end(self, rank: int, how: str) -> None:
        """Record that a process has exited, and answer the processes that wait for it."""
        self.ended.setdefault(rank, how)
        if how == FINISHED:
            self.finalized.add(rank)
        for key, gathering in list(self._gatherings.items()):
            if self._is_hopeless(key, gathering):
                for place in list(gathering.waiting):
                    self._give_up(gathering, place)

    def _is_hopeless(self, key: str, gathering: _Gathering) -> bool:
        hopeless = {LOST} if key == GOODBYE else {LOST, FINISHED}
        return any(self.ended.get(rank) in hopeless for rank in gathering.missing())

    def _gather(self, peer: Peer, message: dict[str, Any], data: bytes) -> None:
        key, place, timeout_s = _check_key(message.get("key")), *_read_gather(message)
        members = self._read_members(message.get("members"))
        gathering = self._gatherings.get(key)
        _require(0 <= place < len(members) and members[place] == peer.rank, "place", place)
        if gathering is None:
            _require(len(self._gatherings) < _MAX_KEYS, "key", key)
            gathering = self._gatherings[key] = _Gathering(members)
        _require(gathering.members == members, "members", members)
        _require(place not in gathering.waiting, "key", key)
        gathering.parts[place] = data
        gathering.waiting[place] = peer, time.monotonic() + timeout_s
        if len(gathering.parts) == len(members):
            self._hand_out(key, gathering)
        elif self._is_hopeless(key, gathering):
            self._give_up(gathering, place)

    def _read_members(self, given: object) -> tuple[int, ...]:
        _require(isinstance(given, list) and len(given) <= self.size, "members", given)
        members: tuple[Any, ...] = tuple(given)  # type: ignore[arg-type]
        known = range(self.size)
        _require(all(type(rank) is int and rank in known for rank in members), "members", given)
        return members

    def _hand_out(self, key: str, gathering: _Gathering) -> None:
        parts = [gathering.parts[place] for place in range(len(gathering.members))]
        waiting, gathering.waiting = gathering.waiting, {}
        gathering.n_taken += len(waiting)
        if gathering.n_taken >= len(gathering.members):
            del self._gatherings[key]
        sizes = [len(part) for part in parts]
        for peer, _ in waiting.values():
            _send(peer, {"sizes": sizes, "missing": [], "ended": self.ended}, *parts)

    def _give_up(self, gathering: _Gathering, place: int) -> None:
        """Answer a waiting process with the list of missing processes."""
        peer, _ = gathering.waiting.pop(place)
        _send(peer, {"sizes": [], "missing": gathering.missing(), "ended": self.ended})


def _read_gather(message: Mapping[str, Any]) -> tuple[int, float]:
    place, timeout_s = message.get("place"), message.get("timeout_s")
    _require(type(place) is int, "place", place)
    _require(type(timeout_s) in (int, float), "timeout_s", timeout_s)
    _require(0 <= timeout_s < threading.TIMEOUT_MAX, "timeout_s", timeout_s)  # type: ignore[operator]
    return place, timeout_s  # type: ignore[return-value]


def _check_key(key: object) -> str:
    _require(isinstance(key, str) and len(key) <= _LONGEST_KEY, "key", key)
    return str(key)


def _require(condition: bool, name: str, value: object) -> None:
    if not condition:
        raise MalformedError(
            f"{name} must have the format that a Connection sends, got {str(value)[:100]!r}"
        )


class Connection:
    """A connection to the store, used by one thread at a time.

    Parameters
    ----------
    variables : mapping of str to str
        The result of `Store.environment`.
    rank : int or None
        The rank of the process whose exit the end of this connection signals; None for an
        additional connection.
    """

    def __init__(self, variables: Mapping[str, str], rank: int | None) -> None:
        self._where = variables[STORE_VARIABLE]
        self._lock = threading.Lock()
        self._socket = join(_WHO, self._where, variables.get(TOKEN_VARIABLE, ""), rank)
        self._file = self._socket.makefile("rwb")

    def gather(
        self, key: str, place: int, members: Sequence[int], data: bytes, timeout_s: float
    ) -> tuple[list[bytes], list[int], dict[int, str]]:
        """Return the data of all members, or the missing members and the exited processes."""
        request = {"key": key, "place": place, "members": list(members), "timeout_s": timeout_s}
        answer, joined = self._ask("gather", request, data, timeout_s)
        parts, at = [], 0
        for size in answer["sizes"]:
            parts.append(joined[at : at + size])
            at += size
        return parts, answer["missing"], _by_rank(answer["ended"])

    def put(self, key: str, value: str) -> None:
        """Store a string under a key."""
        self._ask("put", {"key": key}, value.encode())

    def get(self, keys: Sequence[str]) -> tuple[list[str | None], dict[int, str]]:
        """Return the values of the keys, with None for missing keys, and the exited processes."""
        answer, _ = self._ask("get", {"keys": list(keys)})
        return answer["values"], _by_rank(answer["ended"])

    def say_goodbye(self) -> None:
        """Announce that this process does not start further collectives."""
        self._ask("bye", {})

    def close(self) -> None:
        """Close the connection; if it belongs to a rank, the other processes are notified."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._file.close()
        self._socket.close()

    def _ask(
        self, what: str, request: dict[str, Any], data: bytes = b"", timeout_s: float = 0.0
    ) -> tuple[dict[str, Any], bytes]:
        with self._lock:
            try:
                self._socket.settimeout(timeout_s + _PATIENCE_S)
                _write(self._file, {"what": what, **request}, data)
                answer = _read(self._file)
            except (OSError, ValueError) as error:
                raise unreachable(_WHO, self._where, str(error)) from error
        if answer is None:
            raise unreachable(_WHO, self._where, "the connection is closed")
        return answer


def _by_rank(ended: Mapping[str, str]) -> dict[int, str]:
    return {int(rank): how for rank, how in ended.items()}


def _send(peer: Peer, message: Mapping[str, Any], *parts: bytes) -> None:
    peer.send(_format(message, sum(map(len, parts))), *parts)


def _format(message: Mapping[str, Any], n_bytes: int) -> bytes:
    return json.dumps({**message, "bytes": n_bytes}).encode() + b"\n"


def _parse(line: bytes) -> tuple[dict[str, Any], int]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise MalformedError(str(error)) from error
    n_bytes = message.pop("bytes", None) if isinstance(message, dict) else None
    if type(n_bytes) is not int or n_bytes < 0:
        raise MalformedError(
            f"a message must contain its number of bytes, got {str(n_bytes)[:100]!r}"
        )
    return message, n_bytes


def _write(file: Any, message: Mapping[str, Any], data: bytes = b"") -> None:
    file.write(_format(message, len(data)) + data)
    file.flush()


def _read(file: Any) -> tuple[dict[str, Any], bytes] | None:
    """Return a message and its data, or None if the other side has closed the connection."""
    line = file.readline()
    if not line:
        return None
    message, n_bytes = _parse(line)
    data = file.read(n_bytes)
    if len(data) < n_bytes:
        return None
    return message, data


def main() -> None:
    """Run the store in this process: print rank 0's variables, and exit when stdin closes."""
    size, address = int(sys.argv[1]), sys.argv[2]
    store = Store(size, address)
    line = json.dumps(store.environment(0)).encode()
    print(base64.b64encode(line).decode(), flush=True)  # noqa: T201
    sys.stdin.read()
    store.close()


if __name__ == "__main__":
    main()
