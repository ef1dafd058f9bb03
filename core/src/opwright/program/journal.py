"""Transactions: changes of programs take effect completely or not at all.

Code that changes a program, its name counter, or a list of deferred shapes records how to undo the
change. A transaction that an error leaves undoes its changes in reverse order. A journal is used
instead of a copy of the program so that appending an operator costs the same in a program with
twenty thousand operators as in an empty one.
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
    """Undo every change of programs that was made within the block, if an error leaves it.

    Operators, variables, shapes, blocks, the numbers of fresh names and the streams of random
    operators are as before, in all programs; the error is re-raised. Transactions nest: an error
    caught around an inner one keeps the changes of the outer one. As a decorator,
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
    # Undoing must not be recorded as a change, or it would be undone itself.
    with setting(_JOURNAL, None):
        while len(journal) > mark:
            undo, arguments = journal.pop()
            undo(*arguments)
