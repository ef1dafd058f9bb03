"""Tables of what operators take beside NumPy, from a file that a benchmark wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from markup import escape, table

FILE = Path(__file__).parents[2] / "benchmarks" / "operator_times.json"


def load_timings(file: Path = FILE) -> dict[str, Any]:
    """Return what was measured."""
    timings: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return timings


def describe_timings(op_type: str, timings: dict[str, Any]) -> str:
    """Return the times of one operator as Markdown; empty where it was not measured."""
    measured = timings["operators"].get(op_type)
    if measured is None:
        return ""
    rows = [
        (
            " × ".join(f"{length:,}" for length in row["shape"]),
            format_time(row["opwright_s"]),
            format_time(row["numpy_s"]),
            f"{row['opwright_s'] / row['numpy_s']:.2f}",
        )
        for row in measured["times"]
    ]
    machine = timings["machine"]
    kernel = f"`opwright.ops.{op_type}`, kernel {measured['kernel']}"
    return (
        f"{table(('float32 arrays of', 'opwright', 'NumPy', 'ratio'), rows)}\n\n"
        f"{escape(kernel)}, beside NumPy {timings['numpy']}: by turns in one process, one thread "
        f"each, the quickest of many calls, on {machine['date']} on {escape(machine['processor'])}."
    )


def format_time(seconds: float) -> str:
    """Return a time with three digits."""
    for unit, size in (("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
