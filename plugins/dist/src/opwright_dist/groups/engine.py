"""The interface of engines, which connect processes, such as opwright-mpi."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

from opwright_dist.errors import DistError

ENGINES: Final = "opwright_dist.engines"
"""The entry-point group of engines: name to ``"module:class"`` of an `Engine`."""


class Rendezvous(ABC):
    """The rendezvous of the processes of one run, kept open by their launcher."""

    @abstractmethod
    def environment(self, rank: int) -> dict[str, str]:
        """Return the environment variables that let process `rank` connect."""

    @abstractmethod
    def close(self) -> None:
        """Close it after the processes have ended."""


class Engine(ABC):
    """Connects the processes started by a launcher; one instance per process.

    Constructing it connects to the other processes, so all of them construct it. Its kernels for
    the operators of opwright-dist are registered by its plugin, as any kernels are.
    """

    name: str
    """The name of its entry point, which selects it."""

    @classmethod
    @abstractmethod
    def was_launched(cls) -> bool:
        """Return whether a launcher of this engine started the process, from the environment."""

    @classmethod
    def open_rendezvous(cls, nodes: Sequence[int], address: str) -> Rendezvous:
        """Open the rendezvous for an external launcher, such as opwright-ray.

        Parameters
        ----------
        nodes : sequence of int
            The index of each process's machine.
        address : str
            The address at which other processes reach this machine.

        Raises
        ------
        DistError
            If the engine supports only its own launchers, or cannot listen at the address.
        """
        raise DistError(
            f"{cls.name}: the engine must support other launchers, got one that does not; start "
            "the processes with its own launcher"
        )

    @property
    @abstractmethod
    def rank(self) -> int:
        """Rank of this process, from 0."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of processes."""

    @abstractmethod
    def add_group(self, name: str, ranks: Sequence[int]) -> None:
        """Connect the processes of a new group; every process calls it, with the same arguments."""

    @abstractmethod
    def gather(self, data: bytes, group: str) -> list[bytes]:
        """Return the data of each process of a group, in rank order.

        Raises
        ------
        DistError
            If a process missed the deadline, or the group is unusable.
        """

    @abstractmethod
    def set_deadline(self, seconds: float) -> None:
        """Set the time that a collective may wait for another process."""

    @abstractmethod
    def describe(self) -> str:
        """Return the library and its version, for people."""


class SingleProcess(Engine):
    """The engine of a process without a launcher: a group of one."""

    name = "single"

    @classmethod
    def was_launched(cls) -> bool:
        """Any process can be a group of one."""
        return True

    @property
    def rank(self) -> int:
        """Rank of this process: 0."""
        return 0

    @property
    def size(self) -> int:
        """Number of processes: 1."""
        return 1

    def add_group(self, name: str, ranks: Sequence[int]) -> None:
        """Do nothing, since there is no other process."""

    def gather(self, data: bytes, group: str) -> list[bytes]:
        """Return the data of this process."""
        return [data]

    def set_deadline(self, seconds: float) -> None:
        """Do nothing, since no collective waits."""

    def describe(self) -> str:
        """Describe the single process."""
        return "one process, no launcher"
