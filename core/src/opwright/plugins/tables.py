"""Tables of text with aligned columns, for the command line and `explain`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence


def align(
    rows: Iterable[Sequence[str]], right: Collection[int] = (), indent: str = "  "
) -> list[str]:
    """Return the rows of a table as lines, two blanks between columns.

    Parameters
    ----------
    rows : iterable of sequence of str
        Rows of one length, the title included.
    right : collection of int
        Columns of numbers, which are aligned to the right.
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
