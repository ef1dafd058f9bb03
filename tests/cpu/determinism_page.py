"""Writes the lists of kernels that need deterministic=True into docs/determinism.md.

test_determinism_page.py checks that the page is up to date.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import opwright as ow
from opwright.kernel import KernelEntry

PAGE = Path(__file__).parents[2] / "docs" / "determinism.md"
OURS = ("std", "cpu")
BEGIN = "<!-- what follows is written by tests/cpu/determinism_page.py -->\n"


def entries() -> list[KernelEntry]:
    """Return every kernel of opwright-std and opwright-cpu, loaded."""
    kernels = ow.current_context().kernels
    all_entries = [e for op_type in kernels.op_types() for e in kernels.entries(op_type)]
    found = [e for e in all_entries if e.package.plugin in OURS]
    for entry in found:
        entry.load()
    return found


def listed(holds: Callable[[KernelEntry], bool]) -> str:
    """Return a table of the kernels for which `holds` is true, or "None." if there are none."""
    rows: dict[tuple[str, str], list[str]] = {}
    for entry in entries():
        if holds(entry):
            rows.setdefault((entry.op_type, entry.library), []).append(entry.dtype)
    lines = [
        f"| `{op_type}` | {library} | {', '.join(sorted(dtypes))} |\n"
        for (op_type, library), dtypes in sorted(rows.items())
    ]
    return (
        "".join(["| operator | library | dtypes |\n|---|---|---|\n", *lines])
        if lines
        else "None.\n"
    )


def render() -> str:
    """Return the page with the current lists."""
    words, _, _ = PAGE.read_text().partition(BEGIN)
    return (
        f"{words}{BEGIN}\n"
        "### Different results with a different number of threads\n\n"
        f"{listed(lambda entry: entry.by_threads)}\n"
        "### Different results from run to run\n\n"
        f"{listed(lambda entry: not entry.deterministic)}"
    )


if __name__ == "__main__":
    PAGE.write_text(render())
