"""Sends changed messages to the rendezvous servers: the PMI server and the store."""

from __future__ import annotations

import contextlib
import random
import socket
from functools import cache
from typing import Any

from opwright_dist.rendezvous import Server
from opwright_mpi.pmi import PmiServer
from opwright_nccl.store import Store

_SIZE = 3
_MESSAGES = {
    "pmi": (
        b"cmd=init pmi_version=1 pmi_subversion=1\n",
        b"cmd=get_maxes\n",
        b"cmd=put kvsname=a key=b value=c\n",
        b"cmd=get kvsname=a key=b\n",
        b"cmd=barrier_in\n",
        b"cmd=finalize\n",
        b"cmd=abort exitcode=1\n",
    ),
    "store": (
        (
            b'{"what": "gather", "key": "k", "place": 0, "members": [0, 1], "timeout_s": 0.0, '
            b'"bytes": 3}\nabc'
        ),
        (
            b'{"what": "gather", "key": "g", "place": 0, "members": [0], "timeout_s": 0.01, '
            b'"bytes": 0}\n'
        ),
        b'{"what": "put", "key": "k", "bytes": 3}\nabc',
        b'{"what": "get", "keys": ["k", "j"], "bytes": 0}\n',
        b'{"what": "bye", "bytes": 0}\n',
    ),
}
_ODD = (b"9" * 5000, b"[" * 3000, b"-", b"1e999", b"NaN", b"null", b"true", b"\n", b"\0", b"{}")


@cache
def _server(kind: str) -> Server:
    return PmiServer([0] * _SIZE) if kind == "pmi" else Store(_SIZE)


def draw(rng: random.Random) -> dict[str, Any]:
    """Return some messages of one protocol, most of them changed."""
    kind = rng.choice(("pmi", "store"))
    sent = [_change(rng, rng.choice(_MESSAGES[kind])) for _ in range(rng.choice((1, 2, 5)))]
    if kind == "pmi" and rng.random() < 0.5:
        sent.insert(0, _MESSAGES[kind][0])
    return {"kind": kind, "sent": b"".join(sent)}


def _change(rng: random.Random, message: bytes) -> bytes:
    for _ in range(rng.choice((0, 1, 1, 3))):
        place = rng.randrange(len(message) + 1)
        action = rng.random()
        if action < 0.4:
            message = message[:place] + rng.randbytes(rng.choice((1, 1, 3))) + message[place + 1 :]
        elif action < 0.8:
            message = message[:place] + rng.choice(_ODD) + message[place:]
        else:
            message = message[:place] + message[max(place - 9, 0) : place] * rng.choice((1, 40))
    return message


def run(case: dict[str, Any]) -> None:
    """Send the messages as rank 0, read all answers, and check that the server still works."""
    server = _server(case["kind"])
    with server.open_pair(0) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(case["sent"])
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1 << 16):
            pass
    with server.open_pair(1) as other:
        other.settimeout(8.0)
        other.sendall(b"no message of either\n")
        assert other.recv(1) == b""
