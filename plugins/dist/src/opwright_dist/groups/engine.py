"""What connects the processes of a group: implemented by packages such as opwright-mpi."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

from opwright_dist.errors import DistError

ENGINES: Final = "opwright_dist.engines"
"""The entry-point group of engines: name to ``"module:class"`` of an `Engine`."""


class Rendezvous(ABC):
    """Where the processes of one run find each other; their launcher keeps it open."""

    @abstractmethod
    def environment(self, rank: int) -> dict[str, str]:
        """Return the variables of the environment with which process `rank` connects."""

    @abstractmethod
    def close(self) -> None:
        """Close it, when the processes have ended."""


class Engine(ABC):
    """Connects the processes that a launcher has started; one of it in a process.

    Constructing it connects to the other processes, so all of them construct it. Its kernels for
    the operators of opwright-dist are registered by its plugin, as any kernels are.
    """

    name: str
    """By which it is chosen: the name of its entry point."""

    @classmethod
    @abstractmethod
    def was_launched(cls) -> bool:
        """Tell whether a launcher of this engine has started the process: reads the environment."""

    @classmethod
    def open_rendezvous(cls, nodes: Sequence[int], address: str) -> Rendezvous:
        """Open what a launcher needs that starts the processes by itself, as opwright-ray does.

        Parameters
        ----------
        nodes : sequence of int
            For each process the number of the machine on which it runs.
        address : str
            Of this machine, as the others reach it.

        Raises
        ------
        DistError
            The engine has launchers of its own alone, or cannot listen at the address.
        """
        raise DistError(
            f"{cls.name}: the engine must serve other launchers, got one that does not; start the "
            "processes with a launcher of its own"
        )

    @property
    @abstractmethod
    def rank(self) -> int:
        """Number of this process, from 0."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many processes there are."""

    @abstractmethod
    def add_group(self, name: str, ranks: Sequence[int]) -> None:
        """Connect the processes of a new group; every process calls it, with the same arguments."""

    @abstractmethod
    def gather(self, data: bytes, group: str) -> list[bytes]:
        """Return what each process of a group gives, in the order of their ranks in the group.

        Raises
        ------
        DistError
            A process did not come within the deadline, or the group is unusable.
        """

    @abstractmethod
    def set_deadline(self, seconds: float) -> None:
        """Say how long a collective may wait for another process."""

    @abstractmethod
    def describe(self) -> str:
        """Return the library and its version, for people."""


class SingleProcess(Engine):
    """The engine of a process that no launcher started: a group of one."""

    name = "single"

    @classmethod
    def was_launched(cls) -> bool:
        """Every process can be alone."""
        return True

    @property
    def rank(self) -> int:
        """Number of this process: 0."""
        return 0

    @property
    def size(self) -> int:
        """How many processes there are: 1."""
        return 1

    def add_group(self, name: str, ranks: Sequence[int]) -> None:
        """Nothing is to be connected."""

    def gather(self, data: bytes, group: str) -> list[bytes]:
        """Return what this process gives."""
        return [data]

    def set_deadline(self, seconds: float) -> None:
        """Nothing ever waits."""

    def describe(self) -> str:
        """Return that there is one process."""
        return "one process, no launcher"
