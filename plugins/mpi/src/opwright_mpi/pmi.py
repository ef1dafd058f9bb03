"""A PMI server, through which the MPI libraries of several processes find each other.

The protocol is MPICH's PMI-1. A process puts its address into a table, waits for all processes at
a barrier, and reads the other addresses. A message is a line of ``key=value`` pairs.

PMI-1 does not have authentication, so each process gets an authenticated connection as ``PMI_FD``.
The connection is inherited from the launcher or opened with the token of the run.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import stat
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Final

from opwright_dist import DistError
from opwright_dist.rendezvous import MalformedError, Peer, Server, join

RANK_VARIABLE: Final = "OPWRIGHT_MPI_RANK"
"""Variable with the rank of a process started for a `PmiServer`."""

RANKS_VARIABLE: Final = "OPWRIGHT_MPI_RANKS"
"""Variable with the number of processes started for a `PmiServer`."""

LAUNCHER_VARIABLE: Final = "OPWRIGHT_MPI_LAUNCHER"
"""Variable with the process id of ``opwright-mpi run``, which detects when processes exit."""

ADDRESS_VARIABLE: Final = "PMI_PORT"
"""Variable with ``host:port`` of the server if connections are not inherited.

Because of this variable, an MPI library that is initialized before opwright connects fails instead
of running alone."""

TOKEN_VARIABLE: Final = "OPWRIGHT_MPI_TOKEN"

_WHO: Final = "opwright-mpi"
_FILE: Final = "PMI_FD"
_MAX_KEY: Final = 64
_MAX_VALUE: Final = 1024
_MAX_KEYS: Final = 1024
"""Maximum number of table entries, and additional entries per process."""

_LIMITS: Final = f"kvsname_max=256 keylen_max={_MAX_KEY} vallen_max={_MAX_VALUE}"
_PAIR: Final = re.compile(r"(\w+)=(\S*)")


class PmiServer(Server):
    """The rendezvous of the processes of one run.

    Parameters
    ----------
    nodes : sequence of int
        The machine index of each process; processes on the same machine share memory.
    address : str or None
        Address at which other processes reach this machine. If None, processes inherit their
        connections, and no port is opened.

    Attributes
    ----------
    joined, finalized, aborted : set of int
        Processes that have started, finalized, and aborted MPI.
    """

    def __init__(self, nodes: Sequence[int], address: str | None = "127.0.0.1") -> None:
        self._table = {"PMI_process_mapping": map_nodes(nodes)}
        self._waiting: dict[int, Peer] = {}
        # Unique per run: MPICH derives shared-memory names from it, and a killed process leaves
        # such memory behind.
        self._name = f"opwright_{os.getpid()}_{secrets.token_hex(8)}"
        self.aborted: set[int] = set()
        super().__init__(_WHO, len(nodes), address)

    def environment(self, rank: int) -> dict[str, str]:
        """Return the environment variables for connecting over the network."""
        variables = {ADDRESS_VARIABLE: self.address, TOKEN_VARIABLE: self.token}
        return {**variables, **self._name_process(rank)}

    def admit(self, rank: int) -> tuple[dict[str, str], socket.socket]:
        """Return the environment variables of a process and the connection that it inherits."""
        connection = self.open_pair(rank)
        variables = pmi_variables(connection.fileno(), rank, self.size)
        return {**variables, **self._name_process(rank)}, connection

    def _name_process(self, rank: int) -> dict[str, str]:
        return {RANK_VARIABLE: str(rank), RANKS_VARIABLE: str(self.size)}

    def parse(self, line: bytes) -> tuple[dict[str, str], int]:
        """Parse the ``key=value`` pairs of a line."""
        return dict(_PAIR.findall(line.decode("ascii", "replace"))), 0

    def answer(self, peer: Peer, message: Mapping[str, str], data: bytes) -> None:
        """Answer one message; the first message must be ``init``."""
        del data
        command = message.get("cmd", "")
        answer = _ANSWERS.get(command)
        if answer is None or peer.rank is None or (command == "init") == (peer.rank in self.joined):
            raise MalformedError(
                f"cmd must be a PMI-1 command in the prescribed order, got {command!r}"
            )
        reply = answer(self, peer.rank, message)
        if reply:
            _reply(peer, reply)
        if command == "barrier_in":
            self._enter_barrier(peer, peer.rank)

    def _begin(self, rank: int, _: Mapping[str, str]) -> str:
        self.joined.add(rank)
        return "response_to_init pmi_version=1 pmi_subversion=1 rc=0"

    def _name_table(self, _: int, __: Mapping[str, str]) -> str:
        return f"my_kvsname kvsname={self._name} rc=0"

    def _count(self, _: int, __: Mapping[str, str]) -> str:
        return f"universe_size size={self.size} rc=0"

    def _put(self, _: int, message: Mapping[str, str]) -> str:
        key, value = message.get("key", ""), message.get("value", "")
        if len(key) > _MAX_KEY or len(value) > _MAX_VALUE:
            raise MalformedError(f"a key and value must be within the limits {_LIMITS}")
        if key not in self._table and len(self._table) >= _MAX_KEYS * (1 + self.size):
            raise MalformedError("the table is full")
        self._table[key] = value
        return "put_result rc=0 msg=success"

    def _get(self, _: int, message: Mapping[str, str]) -> str:
        value = self._table.get(message.get("key", ""))
        if value is None:
            return "get_result rc=-1 msg=key_not_found value=unknown"
        return f"get_result rc=0 msg=success value={value}"

    def _enter_barrier(self, peer: Peer, rank: int) -> None:
        self._waiting[rank] = peer
        if len(self._waiting) == self.size:
            waiting, self._waiting = self._waiting, {}
            for each in waiting.values():
                _reply(each, "barrier_out rc=0")

    def _finalize(self, rank: int, _: Mapping[str, str]) -> str:
        self.finalized.add(rank)
        return "finalize_ack rc=0"

    def _abort(self, rank: int, _: Mapping[str, str]) -> str:
        self.aborted.add(rank)
        return ""


_Answer = Callable[[PmiServer, int, Mapping[str, str]], str]


def _reply(peer: Peer, text: str) -> None:
    peer.send(f"cmd={text}\n".encode())


def _always(text: str) -> _Answer:
    return lambda server, rank, message: text


_ANSWERS: Final[Mapping[str, _Answer]] = {
    "init": PmiServer._begin,
    "get_maxes": _always(f"maxes {_LIMITS} rc=0"),
    "get_appnum": _always("appnum appnum=0 rc=0"),
    "get_my_kvsname": PmiServer._name_table,
    "get_universe_size": PmiServer._count,
    "put": PmiServer._put,
    "get": PmiServer._get,
    "barrier_in": _always(""),
    "finalize": PmiServer._finalize,
    "abort": PmiServer._abort,
}


def map_nodes(nodes: Sequence[int]) -> str:
    """Return the mapping of processes to machines in the PMI format, (node, nodes, processes)."""
    blocks = [(node, len(list(same))) for node, same in groupby(nodes)]
    return "(vector," + ",".join(f"({node},1,{count})" for node, count in blocks) + ")"


def pmi_variables(file: int, rank: int, size: int) -> dict[str, str]:
    """Return the environment variables that give an MPI library its connection and rank.

    The version prevents MPICH from using PMIx if the launcher itself runs under PMIx.
    """
    place = {"PMI_RANK": str(rank), "PMI_SIZE": str(size)}
    return {_FILE: str(file), **place, "MPIR_CVAR_PMI_VERSION": "1"}


def prepare_connection(environment: dict[str, str] | os._Environ[str]) -> None:
    """Set up the connection of the MPI library of this process to a `PmiServer`, if there is one.

    Parameters
    ----------
    environment : mapping of str to str
        The environment of this process; PMI variables are added if it names a server.

    Raises
    ------
    DistError
        If the server cannot be reached, or this process does not belong to the run, for example
        because it is a child of a process of the run.
    """
    if RANKS_VARIABLE not in environment:
        return
    rank, size = int(environment[RANK_VARIABLE]), int(environment[RANKS_VARIABLE])
    file = int(environment.get(_FILE, "-1"))
    if _is_socket(file):
        os.set_inheritable(file, False)
        return
    token = environment.pop(TOKEN_VARIABLE, None)  # children of this process must not inherit it
    if token is None:
        raise DistError(
            f"opwright-mpi: rank {rank} must inherit the connection that its launcher "
            f"opened, got {_FILE}={file}, which is not a connection; run collectives only "
            "in the process that the launcher started"
        )
    connection = join(_WHO, environment.pop(ADDRESS_VARIABLE, ""), token, rank)
    connection.setblocking(True)
    environment.update(pmi_variables(connection.detach(), rank, size))


def _is_socket(file: int) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(file).st_mode)
    except (OSError, OverflowError):
        return False
