"""The interface of engines such as opwright-mpi, which connect processes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

from opwright_dist.errors import DistError

ENGINES: Final = "opwright_dist.engines"
"""The entry-point group of engines: name to ``"module:class"`` of an `Engine`."""


class Rendezvous(ABC):
    """The rendezvous at which the processes of a run connect; their launcher keeps it open."""

    @abstractmethod
    def environment(self, rank: int) -> dict[str, str]:
        """Return the environment variables with which process `rank` connects."""

    @abstractmethod
    def close(self) -> None:
        """Close the rendezvous after the processes have exited."""


class Engine(ABC):
    """Connects the processes started by a launcher; one instance per process.

    The constructor connects to the other processes, so every process must construct the engine. The
    plugin of an engine registers kernels for the opwright-dist operators in the usual way.
    """

    name: str
    """The entry-point name, which selects the engine."""

    @classmethod
    @abstractmethod
    def was_launched(cls) -> bool:
        """Return whether the environment shows that this engine's launcher started the process."""

    @classmethod
    def open_rendezvous(cls, nodes: Sequence[int], address: str) -> Rendezvous:
        """Open the rendezvous for an external launcher, such as opwright-ray.

        Parameters
        ----------
        nodes : sequence of int
            The machine index of each process.
        address : str
            The address at which other processes reach this machine.

        Raises
        ------
        DistError
            If the engine supports only its own launchers, or cannot listen at the address.
        """
        raise DistError(
            f"{cls.name}: the engine must support external launchers, got an engine "
            "that does not; start the processes with the engine's launcher"
        )

    @property
    @abstractmethod
    def rank(self) -> int:
        """The rank of this process, from 0."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of processes."""

    @abstractmethod
    def add_group(self, name: str, ranks: Sequence[int]) -> None:
        """Connect the processes of a new group; all processes call this with the same arguments."""

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
        """Set the maximum time that a collective waits for another process."""

    @abstractmethod
    def describe(self) -> str:
        """Return the library name and version, for messages."""


class SingleProcess(Engine):
    """The engine for a process without a launcher; its only group has one member."""

    name = "single"

    @classmethod
    def was_launched(cls) -> bool:
        """Return True, since any process can be a group of one."""
        return True

    @property
    def rank(self) -> int:
        """The rank of this process, 0."""
        return 0

    @property
    def size(self) -> int:
        """The number of processes, 1."""
        return 1

    def add_group(self, name: str, ranks: Sequence[int]) -> None:
        """Do nothing, since this process is the only one."""

    def gather(self, data: bytes, group: str) -> list[bytes]:
        """Return a list that contains only `data`."""
        return [data]

    def set_deadline(self, seconds: float) -> None:
        """Do nothing, since collectives of one process do not wait."""

    def describe(self) -> str:
        """Describe the single process."""
        return "one process, no launcher"
