"""The processes of a run, the engine that connects them, and their groups."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Final, NamedTuple

from opwright.plugin import hint, import_object, scan, suggest_arguments
from opwright_dist.errors import DistError
from opwright_dist.groups.engine import ENGINES, Engine, SingleProcess

WORLD: Final = "world"
"""The name of the group of all processes."""

ENGINE_VARIABLE: Final = "OPWRIGHT_DIST_ENGINE"
"""Environment variable that selects the engine; by default, the launcher determines the engine."""

DEADLINE_VARIABLE: Final = "OPWRIGHT_DIST_DEADLINE"
"""Environment variable with the maximum seconds that a collective waits for another process."""

DEFAULT_DEADLINE_S: Final = 60.0


@suggest_arguments
class Group(NamedTuple):
    """Processes that take part in the same collectives.

    Attributes
    ----------
    name : str
    ranks : tuple of int
        The world ranks of the members, in the order of their ranks in the group.
    rank : int
        The rank of this process in the group; -1 if it is not a member.
    parts : tuple of tuple of int
        The members of all groups of this name: one group, except for `new_groups`.
    """

    name: str
    ranks: tuple[int, ...]
    rank: int
    parts: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> int:
        """Number of processes."""
        return len(self.ranks)

    def find_number(self, rank: int) -> int | None:
        """Return the rank of a process in its group with this name."""
        for part in self.parts:
            if rank in part:
                return part.index(rank)
        return None


class World:
    """All processes of a run, connected by one engine, and their groups.

    Parameters
    ----------
    engine : Engine
    deadline_s : float, optional
        The maximum seconds that a collective waits for another process; by default the value of the
        environment variable, or 60.
    """

    @suggest_arguments
    def __init__(self, engine: Engine, deadline_s: float | None = None) -> None:
        self.engine = engine
        everyone = tuple(range(engine.size))
        self._groups = {WORLD: Group(WORLD, everyone, engine.rank, (everyone,))}
        self.set_deadline(_default_deadline() if deadline_s is None else deadline_s)

    def set_deadline(self, seconds: float) -> None:
        """Set the maximum time that a collective waits for another process.

        Raises
        ------
        DistError
            If the time is not positive and finite.
        """
        self.deadline_s = _check_deadline(seconds, "set_deadline")
        self.engine.set_deadline(self.deadline_s)

    def group(self, name: str, who: str = "dist") -> Group:
        """Return the group with the given name.

        Parameters
        ----------
        name : str
        who : str
            The caller, such as an operator type, for errors.

        Raises
        ------
        DistError
            If there is no such group; the error lists the existing ones.
        """
        group = self._groups.get(name)
        if group is None:
            raise DistError(
                f"{who}: unknown group, got {name!r}{hint(name, self._groups, 'groups')}; create "
                f"it with opwright_dist.new_group on every process"
            )
        return group

    def new_group(self, name: str, ranks: Sequence[int]) -> Group:
        """Create a group of some processes; every process must call this with the same arguments.

        Raises
        ------
        DistError
            If the name exists, or the ranks are not distinct ranks of processes.
        """
        members = tuple(ranks)
        self._check("new_group", name, members)
        return self._add(name, members, (members,))

    def new_groups(self, name: str, parts: Sequence[Sequence[int]]) -> Group:
        """Partition the world into groups that share a name.

        Every process must call this with the same arguments.

        Raises
        ------
        DistError
            If the name exists, or a process is not in exactly one of the groups.
        """
        everyone = tuple(tuple(part) for part in parts)
        ranks = [rank for part in everyone for rank in part]
        self._check("new_groups", name, tuple(ranks))
        missing = sorted(set(range(self.engine.size)) - set(ranks))
        if missing or () in everyone:
            raise DistError(
                "new_groups: each process must be in exactly one group, and each group "
                f"must have a process, got {[list(part) for part in everyone]}, "
                + (f"which lacks rank {missing[0]}" if missing else "with an empty group")
            )
        own = next(part for part in everyone if self.engine.rank in part)
        return self._add(name, own, everyone)

    def _check(self, who: str, name: str, members: tuple[int, ...]) -> None:
        if name in self._groups:
            raise DistError(
                f"{who}: the name must be new, got {name!r}, which already exists; choose "
                "another name"
            )
        if not members or len(set(members)) != len(members):
            raise DistError(
                f"{who}: ranks must be one or more distinct numbers, got {list(members)}"
            )
        wrong = [rank for rank in members if rank not in range(self.engine.size)]
        if wrong:
            raise DistError(
                f"{who}: ranks must be in [0, {self.engine.size}), got {wrong[0]}; there are "
                f"{self.engine.size} processes"
            )

    def _add(
        self, name: str, members: tuple[int, ...], parts: tuple[tuple[int, ...], ...]
    ) -> Group:
        self.engine.add_group(name, members)
        own = members.index(self.engine.rank) if self.engine.rank in members else -1
        self._groups[name] = Group(name, members, own, parts)
        return self._groups[name]


def _default_deadline() -> float:
    text = os.environ.get(DEADLINE_VARIABLE)
    if text is None:
        return DEFAULT_DEADLINE_S
    try:
        seconds = float(text)
    except ValueError:
        raise DistError(f"{DEADLINE_VARIABLE} must be a number of seconds, got {text!r}") from None
    return _check_deadline(seconds, DEADLINE_VARIABLE)


def _check_deadline(seconds: float, who: str) -> float:
    if not 0 < seconds < float("inf"):
        raise DistError(
            f"{who}: the deadline must be a finite number of seconds above 0, got {seconds!r}"
        )
    return float(seconds)


_world: World | None = None
_lock = threading.Lock()


@suggest_arguments
def current_world() -> World:
    """Return the world of this process; the first call connects to the other processes.

    Raises
    ------
    DistError
        If the engine of the environment is not installed, or fails to connect.
    """
    global _world  # noqa: PLW0603  # a process belongs to exactly one world
    if _world is None:
        with _lock:
            if _world is None:
                _world = World(_open_engine())
    return _world


@suggest_arguments
def set_world(world: World | None) -> World | None:
    """Replace the world of this process, for tests and launchers; return the previous one."""
    global _world
    with _lock:
        before, _world = _world, world
    return before


@suggest_arguments
def get_engine(name: str, who: str = ENGINE_VARIABLE) -> type[Engine]:
    """Return the engine class with the given name, without connecting processes.

    Parameters
    ----------
    name : str
        The name of its entry point, such as ``"mpi"``.
    who : str
        The caller, for errors.

    Raises
    ------
    DistError
        If no installed package provides the engine.
    """
    if name == SingleProcess.name:
        return SingleProcess
    points = {point.name: point for point in scan(group=ENGINES)}
    if name not in points:
        raise DistError(
            f"{who}: an installed package must provide the engine, got {name!r}"
            f"{hint(name, [*points, SingleProcess.name], 'engines')}; pip install opwright-{name}"
        )
    engine: type[Engine] = import_object(points[name].target)
    return engine


def _open_engine() -> Engine:
    """Construct the engine set in the environment, or the engine that launched the process."""
    wanted = os.environ.get(ENGINE_VARIABLE)
    if wanted is not None:
        return get_engine(wanted)()
    for point in scan(group=ENGINES):
        engine: type[Engine] = import_object(point.target)
        if engine.was_launched():
            return engine()
    return SingleProcess()
