"""The store: where the processes of one run exchange ids, bytes, and how far they are.

A server that the launcher opens; each process holds a TCP connection. A message is a line of JSON,
which says how many bytes follow. A connection begins with the token of the run, so that no other
process takes part.
"""

from __future__ import annotations

import base64
import contextlib
import hmac
import json
import secrets
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from opwright_dist import DistError
from opwright_dist.launching import Meeting

STORE_VARIABLE: Final = "OPWRIGHT_NCCL_STORE"
"""``host:port`` of the store of a run."""

TOKEN_VARIABLE: Final = "OPWRIGHT_NCCL_TOKEN"
RANK_VARIABLE: Final = "OPWRIGHT_NCCL_RANK"
RANKS_VARIABLE: Final = "OPWRIGHT_NCCL_RANKS"

FINISHED: Final = "finished"
LOST: Final = "lost"

GOODBYE: Final = "goodbye"
"""The key by which processes that have finished wait for the others."""

_LONGEST_LINE: Final = 1 << 20
_LONGEST_DATA: Final = 1 << 31
_CONNECT_S: Final = 30.0
_PATIENCE_S: Final = 15.0
"""How long an answer may take beyond the time that was asked for."""


class _Gathering:
    """What the processes of a group give, until each has got it."""

    def __init__(self) -> None:
        self.parts: dict[int, bytes] = {}
        self.n_taken = 0


class Table:
    """What the server keeps, for all its threads.

    Attributes
    ----------
    joined : set of int
        Processes that have connected.
    finalized : set of int
        Processes that have said goodbye.
    ended : dict of int to str
        Processes that have said goodbye, or whose connection has ended: ``"finished"`` or
        ``"lost"``.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._values: dict[str, bytes] = {}
        self._gatherings: dict[str, _Gathering] = {}
        self.joined: set[int] = set()
        self.finalized: set[int] = set()
        self.ended: dict[int, str] = {}

    def join(self, rank: int) -> None:
        """Note that a process has connected."""
        with self._condition:
            self.joined.add(rank)

    def end(self, rank: int, how: str) -> None:
        """Note that a process has ended, which those learn that wait for it."""
        with self._condition:
            self.ended.setdefault(rank, how)
            if how == FINISHED:
                self.finalized.add(rank)
            self._condition.notify_all()

    def put(self, key: str, value: bytes) -> None:
        """Keep a value."""
        with self._condition:
            self._values[key] = value

    def get(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return values, None where there is none."""
        with self._condition:
            return [self._values.get(key) for key in keys]

    def gather(
        self, key: str, place: int, members: Sequence[int], data: bytes, timeout_s: float
    ) -> tuple[list[bytes], list[int]]:
        """Return what all members give, or whom it waited for in vain: their ranks."""
        hopeless = {LOST} if key == GOODBYE else {LOST, FINISHED}
        end = time.monotonic() + timeout_s
        with self._condition:
            gathering = self._gatherings.setdefault(key, _Gathering())
            gathering.parts[place] = data
            self._condition.notify_all()
            while len(gathering.parts) < len(members):
                left = end - time.monotonic()
                missing = [r for i, r in enumerate(members) if i not in gathering.parts]
                if left <= 0 or any(self.ended.get(r) in hopeless for r in missing):
                    return [], missing
                self._condition.wait(left)
            gathering.n_taken += 1
            if gathering.n_taken == len(members):
                del self._gatherings[key]
            return [gathering.parts[i] for i in range(len(members))], []


class _Handler(socketserver.StreamRequestHandler):
    """Serves one connection; ``hello`` says of whom."""

    server: _Server
    _rank: int | None = None

    def handle(self) -> None:
        """Answer until the other side closes."""
        self.server.connections.add(self.connection)
        try:
            hello = _read(self.rfile, longest=0)
            if hello is None or not hmac.compare_digest(
                str(hello[0].get("token", "")), self.server.token
            ):
                return
            self._rank = hello[0].get("rank")
            if self._rank is not None:
                self.server.table.join(self._rank)
            _write(self.wfile, {})
            while (request := _read(self.rfile)) is not None:
                self._answer(*request)
        except (OSError, ValueError, LookupError):
            return  # as if it had closed
        finally:
            self.server.connections.discard(self.connection)

    def finish(self) -> None:
        """Note that a process has gone: it said goodbye before, or it is lost."""
        if self._rank is not None:
            self.server.table.end(self._rank, LOST)

    def _answer(self, request: dict[str, Any], data: bytes) -> None:
        table = self.server.table
        what = request["what"]
        if what == "gather":
            parts, missing = table.gather(
                request["key"], request["place"], request["members"], data, request["timeout_s"]
            )
            sizes = [len(part) for part in parts]
            answer = {"sizes": sizes, "missing": missing, "ended": table.ended}
            _write(self.wfile, answer, b"".join(parts))
        elif what == "put":
            table.put(request["key"], data)
            _write(self.wfile, {})
        elif what == "get":
            values = table.get(request["keys"])
            texts = [None if v is None else v.decode(errors="replace") for v in values]
            _write(self.wfile, {"values": texts, "ended": table.ended})
        else:
            if self._rank is not None:
                table.end(self._rank, FINISHED)
            _write(self.wfile, {})


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 1024

    def __init__(self, address: str, token: str) -> None:
        self.token = token
        self.table = Table()
        self.connections: set[socket.socket] = set()
        super().__init__((address, 0), _Handler)


class Store(Meeting):
    """Where the processes of one run find each other.

    Parameters
    ----------
    size : int
        How many processes there are.
    address : str
        Of this machine, as the others reach it.

    Raises
    ------
    DistError
        It cannot listen there.
    """

    def __init__(self, size: int, address: str = "127.0.0.1") -> None:
        self.size = size
        try:
            self._server = _Server(address, secrets.token_hex(16))
        except OSError as error:
            raise DistError(
                f"opwright-nccl: the address must be one of this machine, got {address!r}: {error};"
                " give one by which the other machines reach this one"
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="opwright-nccl-store", daemon=True
        )
        self._thread.start()
        self.joined = self._server.table.joined
        self.finalized = self._server.table.finalized

    def environment(self, rank: int) -> dict[str, str]:
        """Return the variables with which a process is started."""
        host, port = self._server.server_address[:2]
        return {
            STORE_VARIABLE: f"{host!s}:{port}",
            TOKEN_VARIABLE: self._server.token,
            RANK_VARIABLE: str(rank),
            RANKS_VARIABLE: str(self.size),
        }

    def close(self) -> None:
        """End serving; processes that still wait for others fail."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        for connection in list(self._server.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class Connection:
    """A connection to the store, used by one thread at a time.

    Parameters
    ----------
    variables : mapping of str to str
        As `Store.environment` gives them.
    rank : int or None
        Of the process that ends with it; None where another connection is that.
    """

    def __init__(self, variables: Mapping[str, str], rank: int | None) -> None:
        where = variables[STORE_VARIABLE]
        host, _, port = where.rpartition(":")
        self._where = where
        self._lock = threading.Lock()
        try:
            self._socket = socket.create_connection((host, int(port)), timeout=_CONNECT_S)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._file = self._socket.makefile("rwb")
            _write(self._file, {"token": variables.get(TOKEN_VARIABLE, ""), "rank": rank})
            answer = _read(self._file)
        except (OSError, ValueError) as error:
            raise self._fault(str(error)) from error
        if answer is None:
            self.close()
            raise self._fault("it refused the token")

    def gather(
        self, key: str, place: int, members: Sequence[int], data: bytes, timeout_s: float
    ) -> tuple[list[bytes], list[int], dict[int, str]]:
        """Return what all members give; where some did not, whom, and who has ended."""
        request = {"key": key, "place": place, "members": list(members), "timeout_s": timeout_s}
        answer, joined = self._ask("gather", request, data, timeout_s)
        parts, at = [], 0
        for size in answer["sizes"]:
            parts.append(joined[at : at + size])
            at += size
        return parts, answer["missing"], _by_rank(answer["ended"])

    def put(self, key: str, value: str) -> None:
        """Keep a text."""
        self._ask("put", {"key": key}, value.encode())

    def get(self, keys: Sequence[str]) -> tuple[list[str | None], dict[int, str]]:
        """Return texts, None where there is none, and who has ended."""
        answer, _ = self._ask("get", {"keys": list(keys)})
        return answer["values"], _by_rank(answer["ended"])

    def say_goodbye(self) -> None:
        """Say that this process starts no further collective."""
        self._ask("bye", {})

    def close(self) -> None:
        """Close it, which the others learn where it is that of a process."""
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
                raise self._fault(str(error)) from error
        if answer is None:
            raise self._fault("it has been closed")
        return answer

    def _fault(self, reason: str) -> DistError:
        return DistError(
            f"opwright-nccl: the store of the run must be reachable at {self._where}, got: "
            f"{reason}; the launcher keeps it open until all processes have ended"
        )


def _by_rank(ended: Mapping[str, str]) -> dict[int, str]:
    return {int(rank): how for rank, how in ended.items()}


def _write(file: Any, message: Mapping[str, Any], data: bytes = b"") -> None:
    file.write(json.dumps({**message, "bytes": len(data)}).encode() + b"\n" + data)
    file.flush()


def _read(file: Any, longest: int = _LONGEST_DATA) -> tuple[dict[str, Any], bytes] | None:
    """Return a message and its data; None where the other side has closed."""
    line = file.readline(_LONGEST_LINE)
    if not line:
        return None
    message = json.loads(line)
    n_bytes = message.pop("bytes", None) if isinstance(message, dict) else None
    if not isinstance(n_bytes, int) or not 0 <= n_bytes <= longest:
        raise ValueError(f"a message must say how many bytes follow, got {n_bytes!r}")
    data = file.read(n_bytes)
    if len(data) < n_bytes:
        return None
    return message, data


def main() -> None:
    """Serve as a process of its own: write the variables of rank 0, end when stdin is closed."""
    size, address = int(sys.argv[1]), sys.argv[2]
    store = Store(size, address)
    line = json.dumps(store.environment(0)).encode()
    print(base64.b64encode(line).decode(), flush=True)  # noqa: T201
    sys.stdin.read()
    store.close()


if __name__ == "__main__":
    main()
