"""Reports on a loaded program, and on the memory that opwright keeps between calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from opwright import _runtime
from opwright.records import NamedTuple
from opwright.run.results import ArraySpec

if TYPE_CHECKING:
    from opwright.lowering import Placement
    from opwright.lowering.lock import LockedKernel


class ProgramReport(NamedTuple):
    """The result of `LoadedProgram.report`; its text is a table.

    Attributes
    ----------
    feeds, fetches : tuple of ArraySpec
        The arguments and results of a call.
    operators : mapping of str to int
        The operators that a call computes, by type, before passes.
    parameters : mapping of str to int
        The size in bytes of each persistable variable that a call reads.
    device : str
    kernels : tuple of LockedKernel
        The kernels of all calls so far, with operator, device, dtype, library, package and version.
    placement : Placement or None
        Counts of the last lowered plan; None before the first call.
    """

    feeds: tuple[ArraySpec, ...]
    fetches: tuple[ArraySpec, ...]
    operators: Mapping[str, int]
    parameters: Mapping[str, int]
    device: str
    kernels: tuple[LockedKernel, ...] = ()
    placement: Placement | None = None

    def __str__(self) -> str:
        from opwright.messages.tables import align

        types = [f"{count} {op_type}" for op_type, count in sorted(self.operators.items())]
        size_bytes = f"{sum(self.parameters.values()):,} bytes"
        lines = [
            f"feeds       {_list(self.feeds)}",
            f"results     {_list(self.fetches)}",
            f"operators   {_list(types)}",
            f"parameters  {len(self.parameters)} of {size_bytes}",
        ]
        if self.placement is None:
            how = "chosen by the first call, for its shapes"
            return "\n".join([*lines, f"kernels     {how} on {self.device}"])
        counts = [f"{count} {name}" for name, count in sorted(self.placement.kernels.items())]
        lines.append(f"kernels     {_list(counts)}")
        rows = [
            (k.operator, k.device, k.dtype, k.library, f"{k.package} {k.version}")
            for k in self.kernels
        ]
        return "\n".join([*lines, *align(rows)])


def _list(items: Iterable[object]) -> str:
    return ", ".join(map(str, items)) or "none"


class PlanMemory(NamedTuple):
    """The memory of the plans of one operator or network.

    Attributes
    ----------
    owner : str
        The operator type, or the network.
    n_plans : int
        The number of plans, one for each combination of shapes, dtypes and attributes.
    plan_bytes : int
        The estimated bytes of the plans and their prepared kernels.
    idle_bytes : int
        Bytes of working memory, kept for the next run.
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
        By owner, largest first.
    packed_bytes : int
        Bytes of packed parameters, in the order in which kernels read them, shared by plans.
    block_bytes : int
        Bytes of large freed blocks on the host that are kept for the next request.
    """

    plans: tuple[PlanMemory, ...]
    packed_bytes: int
    block_bytes: int

    @property
    def total_bytes(self) -> int:
        """The total in bytes."""
        kept = self.packed_bytes + self.block_bytes
        return kept + sum(row.plan_bytes + row.idle_bytes for row in self.plans)

    def __str__(self) -> str:
        rows: list[tuple[int, object, str]] = [
            *((row.plan_bytes + row.idle_bytes, row.n_plans, row.owner) for row in self.plans),
            (self.packed_bytes, "", "packed parameters"),
            (self.block_bytes, "", "freed blocks"),
            (self.total_bytes, "", "in all"),
        ]
        lines = [f"{size / 1e6:9.2f}  {n_plans:>6}  {owner}" for size, n_plans, owner in rows]
        return "\n".join([f"{'MB':>9}  {'plans':>6}  kept by", *lines])


def memory() -> Memory:
    """Return the memory that operators and networks keep between calls.

    At most 4,096 plans with 48 MiB in total are kept, 64 MiB of memory for their runs, and 128 MiB
    of freed blocks. In addition, the last plan that each network ran is kept, with its memory.
    Variables in scopes and returned arrays are not counted.

    Returns
    -------
    Memory
    """
    rows = sorted(_runtime.describe_plans(), key=lambda row: -row[2] - row[3])
    plans = tuple(PlanMemory(*row) for row in rows)
    return Memory(plans, _runtime.packed_bytes(), _runtime.kept_host_bytes())


def release_memory() -> None:
    """Free all memory that is kept for later calls, which then lower their plans again."""
    _runtime.release_plans(all=True)
    _runtime.free_retired()
    _runtime.free_kept_host()
