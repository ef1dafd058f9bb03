"""Names: valid ones, hints for mistyped ones, and fresh ones."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from opwright.errors import RegistrationError
from opwright.program.journal import record

_OP_TYPE: Final = re.compile(r"([a-z][a-z0-9_]*\.)?[a-z][a-z0-9_]*")


def check_op_type(op_type: str) -> None:
    """Raise RegistrationError unless a type is ``lower_snake``, with an optional prefix and dot."""
    if not _OP_TYPE.fullmatch(str(op_type)):
        raise RegistrationError(
            f"{op_type}: an operator type must be lower_snake, after a prefix and a dot where it "
            f"has one, got {op_type!r}; write it like 'acme.rms_norm'"
        )
    for part in op_type.split("."):
        if keyword.iskeyword(part):
            raise RegistrationError(
                f"{op_type}: an operator type must not be a Python keyword, got {part!r}"
            )


def find_nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to `name`, or None."""
    import difflib  # takes 2 ms; needed after a typo only

    candidates = sorted(known)
    matches = difflib.get_close_matches(name, candidates, n=1, cutoff=0.6)
    if matches:
        return matches[0]
    folded = [other for other in candidates if other.lower() == name.lower()]
    if folded:
        return folded[0]
    # difflib rates `num` against `num_classes` low, though one is the beginning of the other.
    starts = [other for other in candidates if name and other.startswith(name)]
    return min(starts, key=len) if starts else None


def is_text(name: str) -> bool:
    """Whether a name can be written: half a surrogate pair cannot."""
    try:
        return name.isascii() or bool(name.encode())
    except UnicodeEncodeError:
        return False


def hint(name: str, known: Iterable[str], what: str = "names") -> str:
    """Return the end of an error message: the nearest name, or else the list of all.

    Parameters
    ----------
    name : str
        The unknown name.
    known : iterable of str
        The valid names.
    what : str
        The word for the known names, in the plural: ``"inputs"``.

    Returns
    -------
    str
        ``"; did you mean 'axis'?"``, ``"; inputs are 'x', 'y'"`` or ``"; it has no inputs"``.
    """
    names = list(known)
    nearest = find_nearest(name, names)
    if nearest is not None:
        return f"; did you mean {nearest!r}?"
    if not names:
        return f"; it has no {what}"
    shown = ", ".join(repr(other) for other in names[:12])
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return f"; {what} are {shown}{more}"


def hint_argument(name: str, known: Iterable[str], what: str = "names") -> str:
    """Return the end of an error for an unknown argument, as `hint` does.

    The name of a known argument in another framework is mapped to that argument: ``dim``
    to ``axis``.
    """
    from opwright.messages.foreign_arguments import FOREIGN_ARGUMENTS

    names = list(known)
    for own in FOREIGN_ARGUMENTS.get(name.lower(), ()):
        if own in names:
            return f"; did you mean {own!r}?"
    return hint(name, names, what)


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
