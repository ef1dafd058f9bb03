"""Text of tables, with aligned columns, and of times, with a suitable unit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

_UNITS: Final = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (0.0, "ns"))


def align(
    rows: Iterable[Sequence[str]], right: Collection[int] = (), indent: str = "  "
) -> list[str]:
    """Return the rows of a table as lines, two blanks between columns.

    Parameters
    ----------
    rows : iterable of sequence of str
        Rows of equal length, including the title.
    right : collection of int
        Indices of columns to align to the right, such as numbers.
    indent : str
        The beginning of each line.
    """
    table = list(rows)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = []
    for row in table:
        cells = [
            text.rjust(width) if i in right else text.ljust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append((indent + "  ".join(cells)).rstrip())
    return lines


def format_seconds(seconds: float) -> str:
    """Return a time with a suitable unit, such as ``12.3 us``."""
    size = abs(seconds)
    scale, unit = next((s, u) for s, u in _UNITS if size >= s)
    return f"{seconds / (scale or 1e-9):.{3 if scale == 1.0 else 1}f} {unit}"
