"""Ctrl-C during a training: noted at first, so that the step ends and everything is saved."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class Interrupt:
    """Whether Ctrl-C was pressed.

    Attributes
    ----------
    requested : bool
        True after the first Ctrl-C. A second one raises KeyboardInterrupt at once.
    """

    __slots__ = ("requested",)

    def __init__(self) -> None:
        self.requested = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle the signal."""
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True


@contextlib.contextmanager
def ignore_interrupt() -> Iterator[Interrupt]:
    """Note nothing, in a with block: Ctrl-C raises KeyboardInterrupt at once."""
    yield Interrupt()


@contextlib.contextmanager
def catch_interrupt() -> Iterator[Interrupt]:
    """Note Ctrl-C instead of raising KeyboardInterrupt, in a with block.

    Another thread than the main one cannot, and a handler of the script stays.
    """
    interrupt = Interrupt()
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield interrupt
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
