"""The engine that connects processes with NCCL and exchanges NCCL ids through a store."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from opwright_cuda import Source
from opwright_cuda.services import load_kernel, services_address
from opwright_dist import DistError, Engine, Rendezvous, ScriptEnd
from opwright_nccl.library import ask, call, make_id, open_library, own_library
from opwright_nccl.starting import find_start
from opwright_nccl.store import GOODBYE, LOST, STORE_VARIABLE, Connection, Store
from opwright_nccl.watching import LONGER, Watcher, format_ended, format_ranks

_NAP_S: Final = 0.001
_FIRST_S: Final = 0.3
"""Seconds before a process exits after another; the launcher must detect the first exit first."""


_LOAD = ctypes.CFUNCTYPE(
    ctypes.c_uint64, ctypes.c_char_p, ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64
)
_CONNECT = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_char_p, ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64
)
_PUBLISH = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_char_p)


class NcclEngine(Engine):
    """Connects the processes with NCCL; at most one instance per process.

    CUDA is not used before the first collective. Each process then uses the GPU of its plan
    exclusively.

    Raises
    ------
    DistError
        If NCCL is missing or too old, or the store of the run cannot be reached.
    """

    name = "nccl"

    def __init__(self) -> None:
        open_library()
        start = find_start()
        self._start = start
        self._deadline_s = 60.0
        self._members: dict[str, tuple[int, ...]] = {}
        self._n_gathered: dict[str, int] = {}
        self._store = Connection(start.variables, start.rank)
        own = Connection(start.variables, None)
        self._watcher = Watcher(own, start.rank, lambda: self._deadline_s)
        self._source = Source.of_package("opwright_nccl", "cu/collectives.cu")
        # Kept alive, since the native library calls them until the process exits.
        self._functions = (_LOAD(self._load), _CONNECT(self._connect), _PUBLISH(self._publish))
        address = ctypes.c_void_p(services_address())
        own_library().opwright_nccl_set_services(address, *self._functions)
        self.add_group("world", range(start.size))
        self._script = ScriptEnd(self._end)

    @classmethod
    def was_launched(cls) -> bool:
        """Return whether ``opwright-nccl run`` or an engine rendezvous started this process."""
        return STORE_VARIABLE in os.environ

    @classmethod
    def open_rendezvous(cls, nodes: Sequence[int], address: str) -> Rendezvous:
        """Open a store as the rendezvous of the processes."""
        return Store(len(nodes), address)

    @property
    def rank(self) -> int:
        """The rank of this process, from 0."""
        return self._start.rank

    @property
    def size(self) -> int:
        """The number of processes."""
        return self._start.size

    def add_group(self, name: str, ranks: Sequence[int]) -> None:
        """Create a group; its first collective connects the processes."""
        self._members[name] = tuple(ranks)
        if self.rank in ranks:
            own = tuple(ranks).index(self.rank)
            own_library().opwright_nccl_add_group(name.encode(), own, len(ranks))

    def gather(self, data: bytes, group: str) -> list[bytes]:
        """Return the data of each process of a group, in rank order."""
        number = self._n_gathered[group] = self._n_gathered.get(group, 0) + 1
        return self._gather(f"{self._key(group)}/{number}", data, group)

    def set_deadline(self, seconds: float) -> None:
        """Set the maximum time that a collective waits for another process."""
        self._deadline_s = seconds
        own_library().opwright_nccl_set_deadline(seconds)

    def describe(self) -> str:
        """Return the version of NCCL for messages."""
        return f"NCCL {call('version')}"

    def _key(self, group: str) -> str:
        """Return the unique key of a group in the store."""
        return f"{group}@{self._members.get(group, (-1,))[0]}"

    def _gather(self, key: str, data: bytes, group: str) -> list[bytes]:
        members = self._members[group]
        if self._script.is_of_parent:
            raise DistError(
                "gather: a forked child is not connected to the other processes; start worker "
                "processes with the method 'spawn'"
            )
        if self.rank not in members:
            raise DistError(
                f"gather: this process must be in group {group!r}, got world rank "
                f"{self.rank} and members {list(members)}"
            )
        place = members.index(self.rank)
        parts, missing, ended = self._store.gather(key, place, members, data, self._deadline_s)
        if not missing:
            return parts
        who = f"gather: group {group!r}: "
        gone = [members.index(rank) for rank in missing if rank in ended]
        if gone:
            raise DistError(f"{who}{format_ended(gone)}; all processes must run the same steps")
        late = format_ranks([members.index(rank) for rank in missing])
        raise DistError(f"{who}{late} did not arrive within {self._deadline_s:g} s. {LONGER}")

    # ---- Called by the library

    def _load(self, expression: bytes, gpu: int, text: int, size: int) -> int:
        made = 0

        def load() -> None:
            nonlocal made
            made = load_kernel(self._source, expression.decode(), gpu)

        _answer(load, text, size)
        return made

    def _connect(self, group: bytes, gpu: int, text: int, size: int) -> int:
        return _answer(lambda: self._connect_group(group.decode()), text, size)

    def _publish(self, digest: int, entries: bytes) -> None:
        self._store.put(f"plan/{digest}", entries.decode())

    def _connect_group(self, name: str) -> None:
        """Connect a group with an id from its first process."""
        members = self._members[name]
        place = members.index(self.rank)
        key = self._key(name)
        made = self._gather(f"id/{key}", make_id() if place == 0 else b"", name)[0]
        end = time.monotonic() + self._deadline_s
        answer, text = ask("start", name.encode(), made)
        while answer != 1:
            answer, text = ask("test", name.encode())
            if answer == 0:
                break
            if time.monotonic() > end:
                answer, text = 1, f"not all arrived within {self._deadline_s:g} s. {LONGER}"
            time.sleep(_NAP_S)
        if answer == 1:
            raise DistError(
                f"group {name!r}: NCCL cannot connect the processes: {text}{_hint(text)}"
            )
        self._watcher.add(name, key, members)
        if not self._watcher.is_alive():
            self._watcher.start()

    # ---- The end of the process

    def _end(self) -> None:
        """Exit with the other processes, or notify them immediately if this process failed."""
        if self._watcher.is_alive():
            self._watcher.stop()
        usable = own_library().opwright_nccl_is_usable(b"world")
        if self._script.has_failed or not usable:
            self._let_the_first_be_named()
            self._store.close()
            return
        try:
            self._store.say_goodbye()
            members = self._members["world"]
            _, missing, ended = self._store.gather(
                GOODBYE, self.rank, members, b"", self._deadline_s
            )
        except DistError as error:
            self._abort(str(error))
            return
        lost = [rank for rank in missing if ended.get(rank) == LOST]
        if lost:
            time.sleep(_FIRST_S)
            self._abort(f"ended, and {format_ranks(lost)} failed")
        elif missing:
            late = f"{format_ranks(missing)} did not within {self._deadline_s:g} s"
            self._abort(f"ended, and {late}")

    def _let_the_first_be_named(self) -> None:
        """If another process failed earlier, wait, so the launcher detects that process first."""
        with contextlib.suppress(DistError):
            _, ended = self._store.get([])
            if LOST in ended.values():
                time.sleep(_FIRST_S)

    def _abort(self, reason: str) -> None:
        print(f"opwright-nccl: rank {self.rank} {reason}", file=sys.stderr)  # noqa: T201
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


def _answer(function: Callable[[], Any], text: int, size: int) -> int:
    """Call a function for the library; return 0, or write the exception to `text` and return 1."""
    try:
        function()
    except BaseException as error:  # noqa: BLE001 - exceptions must not pass through C
        message = str(error) or type(error).__name__
        data = message.encode()[: size - 1] + b"\0"
        ctypes.memmove(text, data, len(data))
        return 1
    return 0


def _hint(text: str) -> str:
    """Return advice for a known error, or an empty string."""
    if "Duplicate GPU" in text:
        return (
            "; give each process its own GPU with CUDA_VISIBLE_DEVICES, which opwright-nccl run "
            'sets, or with device="cuda:1" and so on'
        )
    return ""
