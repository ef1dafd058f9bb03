"""Hints for mistyped names, with the most similar name and arguments of other frameworks."""

from __future__ import annotations

from collections.abc import Iterable


def find_nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to `name`, or None."""
    import difflib  # takes 2 ms; needed only after a typo

    candidates = sorted(known)
    matches = difflib.get_close_matches(name, candidates, n=1, cutoff=0.6)
    if matches:
        return matches[0]
    folded = [other for other in candidates if other.lower() == name.lower()]
    if folded:
        return folded[0]
    # difflib rates `num` and `num_classes` as dissimilar, though one is a prefix of the other.
    starts = [other for other in candidates if name and other.startswith(name)]
    return min(starts, key=len) if starts else None


def hint(name: str, known: Iterable[str], what: str = "names") -> str:
    """Return the end of an error message: the most similar name, or all names if none is similar.

    Parameters
    ----------
    name : str
        The unknown name.
    known : iterable of str
        The valid names.
    what : str
        The plural noun for the known names, such as ``"inputs"``.

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
    """Return the end of an error for an unknown argument, like `hint`.

    Names of other frameworks are mapped to opwright names, such as ``dim`` to ``axis``.
    """
    from opwright.messages.foreign_arguments import FOREIGN_ARGUMENTS  # needed only after a typo

    names = list(known)
    for own in FOREIGN_ARGUMENTS.get(name.lower(), ()):
        if own in names:
            return f"; did you mean {own!r}?"
    return hint(name, names, what)
