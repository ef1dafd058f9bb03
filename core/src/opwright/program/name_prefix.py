"""What the fresh names of programs begin with, within a ``with`` block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_PREFIX: ContextVar[str] = ContextVar("prefix", default="")


@contextmanager
def name_guard(prefix: str) -> Iterator[str]:
    """Begin the fresh names of programs with ``<prefix>/`` within a ``with`` block; guards nest.

    Yields
    ------
    str
        The whole prefix.
    """
    whole = f"{_PREFIX.get()}{prefix}/"
    token = _PREFIX.set(whole)
    try:
        yield whole
    finally:
        _PREFIX.reset(token)


def current_prefix() -> str:
    """Return what fresh names begin with: "" or ``"encoder/"``."""
    return _PREFIX.get()
