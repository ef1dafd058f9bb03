"""Network models with latency and bandwidth, and the cost of collectives.

A link is described by two numbers, as in Hockney's model: a message of b bytes takes
``latency + b / bandwidth`` (R. W. Hockney, The communication challenge for MPP, Parallel Computing
20, 1994). Costs of collectives follow Thakur, Rabenseifner and Gropp, Optimization of collective
communication operations in MPICH, IJHPCA 19, 2005; the double tree follows Sanders, Speck and
Träff, Two-tree algorithms for full bandwidth broadcast, reduction and scan, Parallel Computing 35,
2009.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from opwright.plugin import hint
from opwright_dist import DistError


class Link(NamedTuple):
    """A connection between two processes.

    Attributes
    ----------
    latency_s : float
        Seconds until the first byte arrives.
    bytes_per_s : float
        Bandwidth in one direction.
    """

    latency_s: float
    bytes_per_s: float


class Cost(NamedTuple):
    """The time of a collective, split into latency and transfer.

    Attributes
    ----------
    latency_s : float
        The part that does not depend on the number of bytes.
    transfer_s : float
        The part that grows with the number of bytes.
    algorithm : str
        ``"ring"``, ``"tree"``, ``"hierarchical"`` or ``"none"``.
    """

    latency_s: float
    transfer_s: float
    algorithm: str

    @property
    def seconds(self) -> float:
        """The total time, latency plus transfer."""
        return self.latency_s + self.transfer_s


NO_COST: Final = Cost(0.0, 0.0, "none")


@dataclass(frozen=True, slots=True)
class Network:
    """Machines with several processes each, and the connections between them.

    Attributes
    ----------
    name : str
        For tables.
    ranks_per_node : int
        The number of processes per machine, at least 1.
    inside : Link
        The link between two processes of a machine.
    between : Link
        The link of a machine to the network, which its processes share.
    overlap : float
        The fraction of a collective, in [0, 1], that can overlap with computation: 1 if a device or
        network adapter does the work, 0 if the process does.
    cores_per_node : int or None
        If there are fewer cores than processes, processes take turns; None means enough cores.
    comment : str
        The source of the numbers.

    Raises
    ------
    DistError
        A number is out of range.
    """

    name: str
    ranks_per_node: int
    inside: Link
    between: Link
    overlap: float = 1.0
    cores_per_node: int | None = None
    comment: str = ""

    def __post_init__(self) -> None:
        rules = {
            "ranks_per_node must be at least 1": self.ranks_per_node >= 1,
            "overlap must be in [0, 1]": 0 <= self.overlap <= 1,
            "cores_per_node must be at least 1": (self.cores_per_node or 1) >= 1,
            "a latency must be finite and at least 0 seconds": all(
                0 <= link.latency_s < math.inf for link in (self.inside, self.between)
            ),
            "a bandwidth must be more than 0 bytes a second": all(
                link.bytes_per_s > 0 for link in (self.inside, self.between)
            ),
        }
        for rule, holds in rules.items():
            if not holds:
                raise DistError(f"Network: {rule}, got {self!r}")

    def nodes(self, ranks: int) -> int:
        """Return the number of machines for `ranks` processes."""
        return -(-ranks // self.ranks_per_node)

    def crowding(self, ranks: int) -> float:
        """Return the number of processes per core, at least 1."""
        on_one = min(ranks, self.ranks_per_node)
        return max(1.0, on_one / (self.cores_per_node or on_one))

    def cost(self, collective: str, size_bytes: int, ranks: int) -> Cost:
        """Return the cost of a collective of `size_bytes` among `ranks` processes.

        Parameters
        ----------
        collective : str
            The name without ``dist.``, such as ``"all_reduce"``.
        size_bytes : int
            The size of the whole tensor: the input of all_reduce, broadcast, reduce_scatter and
            all_to_all, the output of all_gather; for exchange_rows the maximum rows of one process.
        ranks : int
            At least 1; a single process sends nothing.

        Returns
        -------
        Cost
            The cost of the fastest algorithm.

        Raises
        ------
        DistError
            If the collective is unknown.
        """
        passes = _PASSES.get(collective)
        if passes is None:
            raise DistError(
                f"Network.cost: unknown collective, got {collective!r}"
                f"{hint(collective, _PASSES, 'collectives')}"
            )
        if ranks <= 1:
            return NO_COST
        if collective == "barrier":
            size_bytes = 0
        candidates = [self._ring(passes, size_bytes, ranks)]
        if collective in _BY_TREE:
            candidates.append(self._tree(passes, size_bytes, ranks))
        nodes = self.nodes(ranks)
        if nodes > 1 and self.ranks_per_node > 1 and collective in _BY_LEVELS:
            candidates.append(self._hierarchical(passes, size_bytes, nodes))
        best = min(candidates, key=lambda cost: cost.seconds)
        crowding = self.crowding(ranks)
        return Cost(best.latency_s * crowding, best.transfer_s * crowding, best.algorithm)

    def _slowest(self, ranks: int) -> Link:
        """Return the slowest link in a ring through all machines."""
        if self.nodes(ranks) == 1:
            return self.inside
        return Link(
            max(self.inside.latency_s, self.between.latency_s),
            min(self.inside.bytes_per_s, self.between.bytes_per_s),
        )

    def _ring(self, passes: int, size_bytes: int, ranks: int) -> Cost:
        link, turns = self._slowest(ranks), passes * (ranks - 1)
        return Cost(turns * link.latency_s, turns / ranks * size_bytes / link.bytes_per_s, "ring")

    def _tree(self, passes: int, size_bytes: int, ranks: int) -> Cost:
        link, nodes = self._slowest(ranks), self.nodes(ranks)
        inner = math.ceil(math.log2(min(ranks, self.ranks_per_node)))
        outer = math.ceil(math.log2(nodes))
        latency_s = inner * self.inside.latency_s + outer * self.between.latency_s
        bytes_s = size_bytes / link.bytes_per_s
        # Split into chunks of the optimal size, pipelined over levels: Sanders et al., section 2.
        filling_s = 2 * math.sqrt(latency_s * bytes_s)
        return Cost(passes * latency_s, passes * (bytes_s + filling_s), "tree")

    def _hierarchical(self, passes: int, size_bytes: int, nodes: int) -> Cost:
        """Return the cost to reduce within machines, then each process's part between machines."""
        local, inside, between = self.ranks_per_node, self.inside, self.between
        outer_turns = min(math.ceil(math.log2(nodes)), nodes - 1)
        latency_s = (local - 1) * inside.latency_s + outer_turns * between.latency_s
        transfer_s = (local - 1) / local * size_bytes / inside.bytes_per_s
        transfer_s += (nodes - 1) / nodes * size_bytes / between.bytes_per_s
        return Cost(passes * latency_s, passes * transfer_s, "hierarchical")


_PASSES: Final[Mapping[str, int]] = {
    "all_reduce": 2,  # parts are summed, then sent back
    "all_gather": 1,
    "reduce_scatter": 1,
    "all_to_all": 1,
    "exchange_rows": 1,
    "broadcast": 1,
    "barrier": 1,
}
"""The number of times that every byte crosses the network."""

_BY_TREE: Final = frozenset({"all_reduce", "broadcast", "barrier"})
_BY_LEVELS: Final = frozenset({"all_reduce", "all_gather", "reduce_scatter"})

NETWORKS: Final[Mapping[str, Network]] = {
    network.name: network
    for network in (
        Network(
            "nvlink",
            ranks_per_node=8,
            inside=Link(3e-6, 360e9),
            between=Link(6e-6, 340e9),
            comment="eight H100 on NVLink 4 (450 GB/s, at 0.8 efficiency), a 400 Gbit/s adapter "
            "for each",
        ),
        Network(
            "infiniband",
            ranks_per_node=8,
            inside=Link(5e-6, 20e9),
            between=Link(5e-6, 22.5e9),
            comment="eight devices on PCIe 4, one 200 Gbit/s adapter at 0.9 efficiency",
        ),
        Network(
            "ethernet",
            ranks_per_node=8,
            inside=Link(5e-6, 20e9),
            between=Link(30e-6, 2.5e9),
            comment="eight devices on PCIe 4, one 25 Gbit/s adapter at 0.8 efficiency",
        ),
    )
}
"""Networks by name."""


def get_network(name: str) -> Network:
    """Return one of `NETWORKS`.

    Raises
    ------
    DistError
        If the name is unknown; the error lists the known names.
    """
    network = NETWORKS.get(name)
    if network is None:
        raise DistError(f"unknown network, got {name!r}{hint(name, NETWORKS, 'networks')}")
    return network


def fit_link(sizes_bytes: list[int], seconds: list[float], ranks: int) -> Link:
    """Fit a link to measured times of all_reduce between processes on one machine.

    Parameters
    ----------
    sizes_bytes, seconds : list
        Two or more sizes, and the time of an all_reduce of each size.
    ranks : int
        Number of processes, at least 2, each with its own core.

    Returns
    -------
    Link
        The link of the ring, whose latency and bandwidth minimize the squared relative errors.

    Raises
    ------
    DistError
        If there are fewer than two sizes, or the times do not increase with them.
    """
    if len(set(sizes_bytes)) < 2 or len(sizes_bytes) != len(seconds) or ranks < 2:
        raise DistError(
            "fit_link: there must be two or more sizes, a time for each, and two or more "
            f"processes, got {len(sizes_bytes)} sizes, {len(seconds)} times and {ranks} "
            "processes"
        )
    rows = [(1 / t, size / t) for size, t in zip(sizes_bytes, seconds, strict=True)]
    aa = sum(a * a for a, _ in rows)
    ab = sum(a * b for a, b in rows)
    bb = sum(b * b for _, b in rows)
    a, b = sum(a for a, _ in rows), sum(b for _, b in rows)
    determinant = aa * bb - ab * ab
    start_s = (a * bb - b * ab) / determinant
    per_byte_s = (b * aa - a * ab) / determinant
    if per_byte_s <= 0:
        raise DistError(
            f"fit_link: times must increase with sizes, got times {seconds} for sizes "
            f"{sizes_bytes}; measure larger sizes"
        )
    turns = 2 * (ranks - 1)
    return Link(max(start_s, 0.0) / turns, turns / ranks / per_byte_s)
