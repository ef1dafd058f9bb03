"""Finds the store of a run through the launcher's environment variables or over MPI."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from typing import Final, NamedTuple

from opwright_dist import DistError, Engine, get_engine
from opwright_nccl.store import RANK_VARIABLE, RANKS_VARIABLE, STORE_VARIABLE, Store

ADDRESS_VARIABLE: Final = "OPWRIGHT_NCCL_ADDRESS"
"""Variable with the address of rank 0's machine for other processes that MPI started."""

_HERE: Final = "127.0.0.1"


class Start(NamedTuple):
    """How a process starts.

    Attributes
    ----------
    rank, size : int
    variables : mapping of str to str
        The environment variables for the connection to the store.
    keeper : object
        Without a launcher, an object that keeps the store open while it exists.
    mpi : Engine or None
        The engine that exchanged the variables.
    """

    rank: int
    size: int
    variables: Mapping[str, str]
    keeper: object
    mpi: Engine | None


def find_start() -> Start:
    """Return how this process starts: by a launcher, by MPI, or alone.

    Raises
    ------
    DistError
        If the variables of the launcher are incomplete, or MPI cannot connect the processes.
    """
    if STORE_VARIABLE in os.environ:
        rank, size = _read_number(RANK_VARIABLE), _read_number(RANKS_VARIABLE)
        return Start(rank, size, os.environ, None, None)
    mpi = _find_mpi()
    if mpi is not None:
        return _start_over_mpi(mpi)
    store = Store(1)
    return Start(0, 1, store.environment(0), store, None)


def _read_number(name: str) -> int:
    text = os.environ.get(name, "")
    if not text.isdecimal():
        raise DistError(
            f"opwright-nccl: {name} must be a number if {STORE_VARIABLE} is set, got "
            f"{text!r}; start the processes with opwright-nccl run"
        )
    return int(text)


def _find_mpi() -> Engine | None:
    """Return the opwright-mpi engine if an MPI launcher started the process."""
    try:
        engine = get_engine("mpi")
    except DistError:
        return None
    return engine() if engine.was_launched() else None


def _start_over_mpi(mpi: Engine) -> Start:
    """Open a store in a separate process on rank 0, and send its address to all ranks over MPI."""
    hosts = mpi.gather(socket.gethostname().encode(), "world")
    keeper, line = None, b""
    if mpi.rank == 0:
        keeper, line = _serve(mpi.size, _HERE if len(set(hosts)) == 1 else _find_address())
    line = mpi.gather(line, "world")[0]
    variables: dict[str, str] = json.loads(base64.b64decode(line))
    return Start(mpi.rank, mpi.size, variables, keeper, mpi)


def _find_address() -> str:
    address = os.environ.get(ADDRESS_VARIABLE)
    if address is not None:
        return address
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError as error:
        raise DistError(
            "opwright-nccl: the host name of this machine must have an address, got "
            f"{socket.gethostname()!r}: {error}; set {ADDRESS_VARIABLE} to its address"
        ) from error


def _serve(size: int, address: str) -> tuple[subprocess.Popen[bytes], bytes]:
    """Start the store; it exits when its stdin is closed, for example when this process exits."""
    command = [sys.executable, "-m", "opwright_nccl.store", str(size), address]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None  # noqa: S101 - stdout is a pipe
    line = process.stdout.readline().strip()
    if not line:
        raise DistError(
            f"opwright-nccl: the store must be able to listen at {address}, got no answer; "
            f"set {ADDRESS_VARIABLE} to another address of this machine"
        )
    return process, line
