"""The table of the CPU kernels; it only names things."""

from __future__ import annotations

from typing import NamedTuple

from opwright import plugin

WIDE = ("float32", "float64")
INT = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
NUMBER = WIDE + INT
NUMBER_OR_BOOL = (*NUMBER, "bool")
ANY = ("*",)  # operators that only move bytes


class Row(NamedTuple):
    """Kernels of one library.

    Attributes
    ----------
    room : str
        The library, ``opwright_cpu/<room>.so``, built from ``native/<room>``.
    types : str
        Operator types, separated by blanks.
    dtypes : tuple of str
        Dispatch dtypes.
    library : str
        Whose implementation, ``"native"`` or ``"onednn"``.
    priority : int
    """

    room: str
    types: str
    dtypes: tuple[str, ...] = WIDE
    library: str = "native"
    priority: int = 50


ROWS: tuple[Row, ...] = (Row("elementwise", "add"),)


@plugin.hookimpl
def opwright_kernels(registry: plugin.KernelRegistrar) -> None:
    """Name every kernel and the library that has it."""
    for row in ROWS:
        for op_type in row.types.split():
            registry.add(
                op_type,
                device="cpu",
                dtypes="*" if row.dtypes == ANY else list(row.dtypes),
                kernel=f"opwright_cpu/{row.room}.so",
                library=row.library,
                priority=row.priority,
            )
