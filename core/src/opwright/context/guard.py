"""Values of a thread or task for the length of a block, the current Context among them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")

guarded_context: ContextVar[Any] = ContextVar("opwright_context", default=None)
"""The Context of the innermost `context_guard` of this thread or task, None outside of all."""


@contextmanager
def setting(variable: ContextVar[Any], value: T) -> Iterator[T]:
    """Set a variable of this thread or task for the length of a block, which gets the value."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)
