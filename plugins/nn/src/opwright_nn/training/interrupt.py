"""Ctrl-C during training is first only recorded, so the step ends and everything is saved."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class Interrupt:
    """Whether Ctrl-C was pressed.

    Parameters
    ----------
    is_shared : bool, default: False
        Whether other processes must stop after the same step; then the handler only records it.

    Attributes
    ----------
    noted : bool
        True after the first Ctrl-C. A second one raises KeyboardInterrupt at once.
    requested : bool
        Whether the training should stop now.
    """

    __slots__ = ("_is_shared", "noted", "requested")

    def __init__(self, is_shared: bool = False) -> None:
        self._is_shared = is_shared
        self.noted = self.requested = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle the signal."""
        if self.noted:
            raise KeyboardInterrupt
        self.noted = True
        self.requested = not self._is_shared


@contextlib.contextmanager
def catch_interrupt(is_shared: bool = False) -> Iterator[Interrupt]:
    """Record Ctrl-C instead of raising KeyboardInterrupt, in a with block.

    The context manager does nothing outside the main thread, or if the script has its own handler.
    """
    interrupt = Interrupt(is_shared)
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield interrupt
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
