"""Watches the collectives of a process; aborts late or mismatched collectives with a reason."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from opwright_dist import DistError
from opwright_nccl.library import Progress, ask, own_library
from opwright_nccl.store import Connection

_LOOK_S: Final = 0.02
_NOTE_S: Final = 0.2
"""Seconds of waiting after which a process announces that it waits."""

_ASK_S: Final = 0.5
"""Seconds between checks whether other processes have exited."""

_ANSWER_S: Final = 0.5
"""Extra seconds that late processes get at the deadline."""

_JOIN_S: Final = 5.0

LONGER: Final = "Set a longer deadline with opwright_dist.set_deadline or OPWRIGHT_DIST_DEADLINE"


class _Waiting:
    """The state of one group: time of the last progress, and announcements."""

    def __init__(self) -> None:
        self.begun = 0
        self.since = time.monotonic()
        self.noted = False
        self.asked = 0.0


class Watcher(threading.Thread):
    """A thread that monitors groups while processes wait for the GPU.

    Parameters
    ----------
    store : Connection
        A separate connection, in addition to the connection of the process.
    rank : int
        The rank of this process in the world.
    find_deadline : callable
        Returns the maximum seconds that a collective waits for another process.
    """

    def __init__(self, store: Connection, rank: int, find_deadline: Callable[[], float]) -> None:
        super().__init__(name="opwright-nccl-watcher", daemon=True)
        self._store = store
        self._find_deadline = find_deadline
        self._stopped = threading.Event()
        self._waiting: dict[str, _Waiting] = {}
        self._members: dict[str, tuple[int, ...]] = {}
        self._rank = rank
        self._keys: dict[str, str] = {}

    def add(self, group: str, key: str, members: Sequence[int]) -> None:
        """Watch a group that has been connected.

        Parameters
        ----------
        group : str
            The name of the group.
        key : str
            The unique key of the group in the store.
        members : sequence of int
            The world ranks of its processes.
        """
        self._keys[group] = key
        self._members[group] = tuple(members)
        self._waiting[group] = _Waiting()

    def stop(self) -> None:
        """Stop watching."""
        self._stopped.set()
        self.join(_JOIN_S)

    def run(self) -> None:
        """Watch the groups until stopped."""
        while not self._stopped.wait(_LOOK_S):
            for group in list(self._waiting):
                reason = self._find_reason(group)
                if reason is not None:
                    own_library().opwright_nccl_fail(group.encode(), reason.encode())

    def _find_reason(self, group: str) -> str | None:
        """Return the reason to abort the collectives of a group, or None."""
        progress = Progress()
        answer, text = ask("watch", group.encode(), ctypes.byref(progress))
        if answer < 0:
            return None
        who = f"{own_library().opwright_nccl_name(progress.operation).decode()}: group {group!r}: "
        if answer == 1:
            return f"{who}NCCL failed: {text}"
        try:
            reason = self._find_difference(progress) or self._find_lateness(group, progress)
        except DistError as error:
            reason = str(error)
        return None if reason is None else who + reason

    def _find_lateness(self, group: str, progress: Progress) -> str | None:
        waiting, now = self._waiting[group], time.monotonic()
        if progress.begun <= progress.ended or progress.begun != waiting.begun:
            self._waiting[group] = new = _Waiting()
            new.begun = progress.begun
            return None
        waited = now - waiting.since
        if waited > _NOTE_S and not waiting.noted:
            waiting.noted = True
            self._store.put(f"waiting/{self._keys[group]}/{self._rank}", str(progress.begun))
        if waited > _NOTE_S and now - waiting.asked > _ASK_S:
            waiting.asked = now
            ended = self._find_ended(group)
            if ended:
                return ended
        if waited > self._find_deadline():
            return self._name_missing(group, progress.begun)
        return None

    def _find_ended(self, group: str) -> str:
        _, ended = self._store.get([])
        gone = [i for i, rank in enumerate(self._members[group]) if rank in ended]
        return f"{format_ended(gone)}; all processes must run the same steps" if gone else ""

    def _name_missing(self, group: str, begun: int) -> str:
        """Return the processes that a group waits for, if all other processes are known to wait."""
        keys = [f"waiting/{self._keys[group]}/{rank}" for rank in self._members[group]]
        end = time.monotonic() + _ANSWER_S
        while True:
            counts, _ = self._store.get(keys)
            silent = [i for i, count in enumerate(counts) if count is None or int(count) < begun]
            if not silent or time.monotonic() > end:
                break
            time.sleep(_LOOK_S)
        seconds = f"{self._find_deadline():g} s"
        if not silent:
            return f"all processes arrived, but no data within {seconds}; check the network"
        return f"{format_ranks(silent)} did not arrive within {seconds}. {LONGER}"

    def _find_difference(self, progress: Progress) -> str | None:
        if progress.differs == 0:
            return None
        other = progress.differs
        if progress.first[0] == progress.other[0]:
            return (
                f"all processes must have run the same collectives, got {progress.first[1]} on "
                f"rank 0 and {progress.other[1]} on rank {other}; a run failed on only one of "
                "them. Restart all of them from the last checkpoint"
            )
        keys = [f"plan/{progress.first[0]}", f"plan/{progress.other[0]}"]
        (mine, theirs), _ = self._store.get(keys)
        return describe_difference((mine or "").splitlines(), (theirs or "").splitlines(), other)


def describe_difference(mine: Sequence[str], theirs: Sequence[str], other: int) -> str:
    """Return the first operator that differs between the plans of rank 0 and rank `other`."""
    place = 0
    while place < min(len(mine), len(theirs)) and mine[place] == theirs[place]:
        place += 1
    entries = [lines[place] if place < len(lines) else "nothing more" for lines in (mine, theirs)]
    return (
        "all processes must build the same program and run the same collectives, got "
        f"{entries[0]} on rank 0, and {entries[1]} on rank {other}; use the same program, "
        "feeds and fetches on all, and a separate program for what only one process computes. No "
        "data was sent"
    )


def format_ranks(ranks: Sequence[int]) -> str:
    """Return "rank 1", or "ranks 1, 2 and 3"."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"


def format_ended(ranks: Sequence[int]) -> str:
    """Describe the processes that exited before a collective."""
    verb = "has" if len(ranks) == 1 else "have"
    return f"{format_ranks(ranks)} {verb} exited before this collective"
