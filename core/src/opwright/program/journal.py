"""Transactions: changes of programs take effect completely or not at all.

Code that changes a program, its name counter, or a list of deferred shapes records how to undo the
change. If an error leaves a transaction, its changes are undone in reverse order. A journal is used
instead of a copy of the program, so appending an operator to a program of twenty thousand operators
costs as much as appending to an empty program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from opwright.context.guard import setting

Undo = tuple[Callable[..., object], tuple[Any, ...]]

_JOURNAL: ContextVar[list[Undo] | None] = ContextVar("opwright_journal", default=None)
"""The changes of the outermost open transaction of this thread or task."""


@contextmanager
def transaction() -> Iterator[None]:
    """Undo all changes of programs within the block if an error leaves it.

    Operators, variables, shapes, blocks, name counters and the streams of random operators are
    restored in all programs; the error is re-raised. Transactions nest: if an error is caught
    around an inner transaction, the changes of the outer transaction are kept. As a decorator,
    ``@transaction()`` does the same for each call of a function.

    Changes that bypass the methods of `Program` and `Block`, such as ``block.ops.clear()``, are not
    undone.
    """
    journal = _JOURNAL.get()
    token = None
    if journal is None:
        journal = []
        token = _JOURNAL.set(journal)
    mark = len(journal)
    try:
        yield
    except BaseException:
        _undo(journal, mark)
        raise
    finally:
        if token is not None:
            _JOURNAL.reset(token)


def record(undo: Callable[..., object], *arguments: Any) -> None:
    """Make the open transaction, if any, call ``undo(*arguments)`` to undo a change."""
    journal = _JOURNAL.get()
    if journal is not None:
        journal.append((undo, arguments))


def _undo(journal: list[Undo], mark: int) -> None:
    # Undoing must not be recorded as a change, since that change would then be undone.
    with setting(_JOURNAL, None):
        while len(journal) > mark:
            undo, arguments = journal.pop()
            undo(*arguments)
