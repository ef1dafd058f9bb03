"""Names of variables: fresh ones, and whether a name can be written."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from opwright.program.journal import record


def is_text(name: str) -> bool:
    """Whether a name can be written: half a surrogate pair cannot."""
    try:
        return name.isascii() or bool(name.encode())
    except UnicodeEncodeError:
        return False


class UniqueNames:
    """Counts the names made from each prefix, so that each name is new.

    ``make("fc")`` gives ``fc_0``, ``fc_1``, and so on, and skips names that `taken` reports.
    """

    __slots__ = ("_counters",)

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        self._counters: dict[str, int] = dict(counts or {})

    def make(self, prefix: str, taken: Callable[[str], object] | None = None) -> str:
        """Return ``<prefix>_<n>`` with the next n for which ``taken(name)`` is false."""
        count = self._counters.get(prefix, 0)
        record(self._counters.__setitem__, prefix, count)
        name = f"{prefix}_{count}"
        while taken is not None and taken(name):
            count += 1
            name = f"{prefix}_{count}"
        self._counters[prefix] = count + 1
        return name

    def copy(self) -> UniqueNames:
        """Return an independent counter that continues from here."""
        return UniqueNames(self._counters)
