"""How large the core is: it grows only with the number in decision 0098, and a reason."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DECISION = ROOT / "docs" / "decisions" / "0098-what-the-core-contains.md"

SLACK = 500
"""Lines that the ceiling may be above the core: more, and it would not be noticed that it grows."""


def count_lines() -> int:
    """Return the lines of Python in the core, without those that protoc has written."""
    files = (ROOT / "core" / "src" / "opwright").rglob("*.py")
    written = (path for path in files if path.name != "framework_pb2.py")
    return sum(len(path.read_text().splitlines()) for path in written)


def read_ceiling() -> int:
    """Return the ceiling that the decision states."""
    stated = re.search(r"at most \*\*([\d,]+) lines\*\*", DECISION.read_text())
    assert stated, f"{DECISION.name} must state the ceiling as: at most **N lines**"
    return int(stated[1].replace(",", ""))


def test_the_core_is_not_larger_than_was_decided():
    lines, ceiling = count_lines(), read_ceiling()
    assert lines <= ceiling, (
        f"the core has {lines} lines of Python, and {DECISION.name} allows {ceiling}: move what a "
        "machine does not need that only runs and trains models into a package, or raise the "
        "number there, with a line that says what for"
    )


def test_the_ceiling_follows_a_core_that_shrinks():
    lines, ceiling = count_lines(), read_ceiling()
    assert lines >= ceiling - SLACK, (
        f"the core has {lines} lines of Python: lower the ceiling of {ceiling} in {DECISION.name}"
    )
