"""Transactions: what is built within one is built whole, or not at all.

Whoever changes something that is built (a program, the counter of its names, a list that waits for
shapes) records how to take the change back; a transaction that an error leaves does so, the last
change first. A journal of changes, not a copy of the program: one more operator costs the same in
a program of twenty thousand as in an empty one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Undo = tuple[Callable[..., object], tuple[Any, ...]]

_JOURNAL: ContextVar[list[Undo] | None] = ContextVar("opwright_journal", default=None)
"""The changes of the outermost transaction that is open, of this thread or task."""


@contextmanager
def transaction() -> Iterator[None]:
    """Take back, where an error passes, every change of programs made within the block.

    Operators, variables, shapes, blocks, the numbers of fresh names and the streams of random
    operators are as before, in all programs; the error goes on. Transactions nest: an error that is
    caught around an inner one leaves what the outer one has built. As a decorator,
    ``@transaction()`` makes a function that builds do all or nothing.

    What is changed past the methods of `Program` and `Block`, as by ``block.ops.clear()``, is not
    taken back.
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
        _take_back(journal, mark)
        raise
    finally:
        if token is not None:
            _JOURNAL.reset(token)


def record(undo: Callable[..., object], *arguments: Any) -> None:
    """Have an open transaction call ``undo(*arguments)`` where it must take back a change."""
    journal = _JOURNAL.get()
    if journal is not None:
        journal.append((undo, arguments))


def _take_back(journal: list[Undo], mark: int) -> None:
    # What is put back is no new change: without this it would be recorded, and put back in turn.
    token = _JOURNAL.set(None)
    try:
        while len(journal) > mark:
            undo, arguments = journal.pop()
            undo(*arguments)
    finally:
        _JOURNAL.reset(token)
