"""Times of operators compared with PyTorch and NumPy, from a file that ``make bench-operators``
wrote.

The file is not part of the repository; a site that is built without it does not show times.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from markup import escape, table

FILE = Path(__file__).parents[2] / "build" / "operator_times.json"

Row = Mapping[str, Any]

_WIDTH: Final = 760
_STRIP: Final = 64
_LEFT: Final = 110
_ENDS: Final = (0.02, 3.0)
_MARKS: Final = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)


def load_timings(file: Path = FILE) -> dict[str, Any]:
    """Return the measured times; empty if there is no file."""
    if not file.exists():
        return {}
    timings: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return timings


def describe_timings(op_type: str, timings: Mapping[str, Any]) -> str:
    """Return the times of one operator as Markdown, or '' if it was not measured."""
    measured = timings.get("operators", {}).get(op_type)
    if measured is None:
        return ""
    titles = ("float32 elements", "run", "opwright", "PyTorch", "ratio", "NumPy")
    kernel = f"`opwright.ops.{op_type}`, kernel {measured['kernel']}"
    return f"{table(titles, map(_cells, measured['times']))}\n\n{escape(kernel)}, {_how(timings)}"


def make_page(timings: Mapping[str, Any]) -> str:
    """Return a Markdown page of all operators: a plot, the slow operators, and the table."""
    rows = list(_list_rows(timings))
    means = [(_name_size(size), f"{mean:.2f}") for size, mean in timings["summary"].items()]
    introduction = (
        f"Every operator, without and with its gradient, {_how(timings)} A dot is a row of the "
        "table; left of 1, opwright takes less time."
    )
    every = [(f"[`{op}`]({op}.md)", *_cells(row)) for op, row in rows]
    slow = [
        (f"[`{op}`]({op}.md)", *_cells(row)[:-1], escape(row.get("reason", "")))
        for op, row in rows
        if _ratio(row) > timings["limit"]
    ]
    titles = ("operator", "float32 elements", "run", "opwright", "PyTorch", "ratio")
    parts = [
        "---\norphan: true\n---",
        "# Operators compared with PyTorch",
        introduction,
        draw(rows),
        table(("size", "geometric mean of the ratios"), means),
        f"## Above {timings['limit']}\n\n" + (table((*titles, "why"), slow) or "None."),
        "## All\n\n" + table((*titles, "NumPy"), every),
    ]
    return "\n\n".join(parts) + "\n"


def draw(rows: Sequence[tuple[str, Row]]) -> str:
    """Plot ratios as dots, on one logarithmic line for each size."""
    sizes = sorted({row["size"] for _, row in rows})
    height = _STRIP * len(sizes) + 30
    marks = []
    for ratio in _MARKS:
        x = f"{_place(ratio):.0f}"
        style = "#888" if ratio == 1.0 else "#8884"
        marks.append(f'<line x1="{x}" x2="{x}" y1="0" y2="{height - 24}" stroke="{style}"/>')
        marks.append(
            f'<text x="{x}" y="{height - 8}" text-anchor="middle" font-size="12" '
            f'fill="currentColor">{ratio:g}</text>'
        )
    for number, size in enumerate(sizes):
        marks.extend(_draw_strip([pair for pair in rows if pair[1]["size"] == size], number, size))
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" role="img" '
        f'style="max-width: 100%; height: auto" aria-label="Ratios to PyTorch by size">\n'
        + "\n".join(marks)
        + "\n</svg>"
    )


def _draw_strip(rows: Sequence[tuple[str, Row]], number: int, size: int) -> Iterator[str]:
    top = _STRIP * number
    yield (
        f'<text x="0" y="{top + _STRIP / 2 + 4:.0f}" font-size="12" fill="currentColor">'
        f"{size:,}</text>"
    )
    for place, (op_type, row) in enumerate(rows):
        y = top + 10 + (_STRIP - 20) * ((place * 0.618) % 1)  # spread, so that dots do not overlap
        ratio = _ratio(row)
        color = "#d33" if ratio > 1 else "#2a7"
        yield (
            f'<circle cx="{_place(ratio):.1f}" cy="{y:.1f}" r="3" fill="{color}" '
            f'fill-opacity="0.6"><title>{op_type} {_describe(row)}: {ratio:.2f}</title></circle>'
        )


def _place(ratio: float) -> float:
    low, high = (math.log(end) for end in _ENDS)
    share = (math.log(min(max(ratio, _ENDS[0]), _ENDS[1])) - low) / (high - low)
    return _LEFT + share * (_WIDTH - _LEFT - 20)


def _list_rows(timings: Mapping[str, Any]) -> Iterator[tuple[str, Row]]:
    for op_type, measured in timings["operators"].items():
        for row in measured["times"]:
            yield op_type, row


def _cells(row: Row) -> tuple[str, ...]:
    numpy = row.get("numpy_s")
    return (
        f"{row['size']:,}",
        _describe(row),
        format_time(row["opwright_s"]),
        format_time(row["torch_s"]),
        f"{_ratio(row):.2f}",
        "" if numpy is None else format_time(numpy),
    )


def _describe(row: Row) -> str:
    words = [row["layout"], "with gradient" if row["gradient"] else ""]
    return ", ".join(filter(None, words)) or "forward"


def _ratio(row: Row) -> float:
    ratio: float = row["opwright_s"] / row["torch_s"]
    return ratio


def _name_size(size: str) -> str:
    return size if size == "all" else f"{int(size):,}"


def _how(timings: Mapping[str, Any]) -> str:
    machine = timings["machine"]
    threads = machine["threads"]
    how = "processor time of one thread each" if threads == 1 else f"{threads} threads each"
    return (
        f"compared with PyTorch {timings['torch']} and NumPy {timings['numpy']}: by turns, "
        f"{how}, the median of many calls, on {machine['date']} "
        f"on {escape(machine['processor'])}."
    )


def format_time(seconds: float) -> str:
    """Format a time with three significant digits and a unit."""
    for unit, size in (("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
