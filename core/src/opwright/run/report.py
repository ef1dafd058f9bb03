"""Describes a loaded program: what a call takes and returns, and which kernels compute it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from opwright.lowering import Placement
from opwright.lowering.locked import LockedKernel
from opwright.records import NamedTuple


class ArraySpec(NamedTuple):
    """What a call takes or returns.

    Attributes
    ----------
    name : str
    shape : tuple of int or None, or None
        None for a dimension that may change; None instead of a tuple where even their number is
        unknown.
    dtype : str
    """

    name: str
    shape: tuple[int | None, ...] | None
    dtype: str

    def __str__(self) -> str:
        dims = ["?" if dim is None else str(dim) for dim in self.shape or ()]
        return f"{self.name} {self.dtype}[{'...' if self.shape is None else ', '.join(dims)}]"


class ProgramReport(NamedTuple):
    """What `LoadedProgram.report` returns; as text a table.

    Attributes
    ----------
    feeds, fetches : tuple of ArraySpec
        What a call takes and returns.
    operators : mapping of str to int
        The operators that a call computes, by type, before passes.
    parameters : mapping of str to int
        The persistable variables that a call reads, with the bytes of each.
    device : str
    kernels : tuple of LockedKernel
        What was chosen for the calls so far: operator, device, dtype, library, package, version.
    placement : Placement or None
        Counts of the plan of the last shapes that were new; None before the first call.
    """

    feeds: tuple[ArraySpec, ...]
    fetches: tuple[ArraySpec, ...]
    operators: Mapping[str, int]
    parameters: Mapping[str, int]
    device: str
    kernels: tuple[LockedKernel, ...] = ()
    placement: Placement | None = None

    def __str__(self) -> str:
        from opwright.plugins.tables import align

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
