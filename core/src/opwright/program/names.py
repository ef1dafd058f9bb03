"""Creates fresh variable names, and checks whether a name can be saved."""

from __future__ import annotations

from collections.abc import Callable

from opwright.errors import ProgramError
from opwright.program.journal import record


def is_text(name: str) -> bool:
    """Whether a name can be encoded as UTF-8; names with unpaired surrogates cannot."""
    try:
        return name.isascii() or bool(name.encode())
    except UnicodeEncodeError:
        return False


def check_name(name: object) -> str:
    """Return the name of a new variable; ProgramError if it is empty or cannot be saved."""
    if not isinstance(name, str) or not name or not is_text(name):
        raise ProgramError(
            "create_var: a name must be a non-empty str without unpaired surrogates, "
            f"got {name!r}; choose another name"
        )
    return name


def make_name(prefix: str, counts: dict[str, int], taken: Callable[[str], object]) -> str:
    """Return ``<prefix>_<n>`` with the next n for which ``taken`` is false for this name.

    `counts` has the next n of each prefix, so names for ``fc`` are ``fc_0``, ``fc_1``, and so on.
    """
    count = counts.get(prefix, 0)
    record(counts.__setitem__, prefix, count)
    while taken(name := f"{prefix}_{count}"):
        count += 1
    counts[prefix] = count + 1
    return name
