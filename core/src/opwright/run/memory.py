"""Reports the memory that opwright keeps between calls, and gives it back."""

from __future__ import annotations

from typing import NamedTuple

from opwright import _runtime


class PlanMemory(NamedTuple):
    """What the plans of one operator or network keep.

    Attributes
    ----------
    owner : str
        The operator type, or the network.
    n_plans : int
        Plans, one for each combination of shapes, dtypes and attributes.
    plan_bytes : int
        Bytes of the plans and their prepared kernels, estimated.
    idle_bytes : int
        Bytes in which their runs work, kept for the next run.
    """

    owner: str
    n_plans: int
    plan_bytes: int
    idle_bytes: int


class Memory(NamedTuple):
    """The memory that is kept between calls; printed, it is a table.

    Attributes
    ----------
    plans : tuple of PlanMemory
        By owner, the largest first.
    packed_bytes : int
        Bytes of the parameters in the order in which kernels read them, shared by plans.
    block_bytes : int
        Bytes of large blocks on the host that were freed and are kept for the next request.
    """

    plans: tuple[PlanMemory, ...]
    packed_bytes: int
    block_bytes: int

    @property
    def total_bytes(self) -> int:
        """The bytes of all that is kept."""
        kept = self.packed_bytes + self.block_bytes
        return kept + sum(row.plan_bytes + row.idle_bytes for row in self.plans)

    def __str__(self) -> str:
        lines = [f"{'MB':>9}  {'plans':>6}  kept by"]
        for row in self.plans:
            size = (row.plan_bytes + row.idle_bytes) / 1e6
            lines.append(f"{size:9.2f}  {row.n_plans:6}  {row.owner}")
        lines.append(f"{self.packed_bytes / 1e6:9.2f}  {'':6}  packed parameters")
        lines.append(f"{self.block_bytes / 1e6:9.2f}  {'':6}  freed blocks")
        lines.append(f"{self.total_bytes / 1e6:9.2f}  {'':6}  in all")
        return "\n".join(lines)


def memory() -> Memory:
    """Return what operators and networks keep in memory between calls.

    Kept are at most 4,096 plans of 48 MiB together, memory for their runs of 64 MiB together, and
    freed blocks of 128 MiB together. The plan that each network ran last, with its memory, is kept
    besides. Variables of scopes, and arrays that were returned, are not counted.

    Returns
    -------
    Memory
    """
    rows = sorted(_runtime.describe_plans(), key=lambda row: -row[2] - row[3])
    plans = tuple(PlanMemory(*row) for row in rows)
    return Memory(plans, _runtime.packed_bytes(), _runtime.kept_host_bytes())


def release_memory() -> None:
    """Give all memory back that is kept for later calls; they lower their plans again."""
    _runtime.release_plans(all=True)
    _runtime.free_retired()
    _runtime.free_kept_host()
