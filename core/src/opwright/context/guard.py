"""The current Context of a thread or task, and whether it is the unmodified default Context."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from opwright._runtime import Epoch

T = TypeVar("T")

guarded_context: ContextVar[Any] = ContextVar("opwright_context", default=None)
"""The Context of the innermost `context_guard` of this thread or task; None outside any guard."""


@contextmanager
def setting(variable: ContextVar[Any], value: T) -> Iterator[T]:
    """Set a context variable within a ``with`` block, and yield the value."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)


default_epoch: Final = Epoch()
"""The epoch of the default Context; cached plans use it even before that Context exists."""

_unchanged: Final = Epoch()


def is_unchanged() -> bool:
    """Return whether the default Context is current, without pins or later registrations."""
    return guarded_context.get() is None and default_epoch.now == _unchanged.now
