"""Prefixes each output line of a process with its rank."""

from __future__ import annotations

from typing import Final

_LONGEST_LINE: Final = 1 << 20
"""Maximum bytes of a line; longer lines are forwarded in chunks."""


class Lines:
    """Splits an output stream of one process into lines, prefixed with its rank.

    Parameters
    ----------
    rank : int
    """

    def __init__(self, rank: int) -> None:
        self._prefix = b"[%d] " % rank
        self._pending = b""

    def add(self, data: bytes) -> bytes:
        """Add data and return the complete lines; the rest is buffered."""
        *lines, self._pending = (self._pending + data).split(b"\n")
        if len(self._pending) > _LONGEST_LINE:
            lines.append(self._pending)
            self._pending = b""
        return b"".join(self._prefix + line + b"\n" for line in lines)

    def end(self) -> bytes:
        """Return the last line if the stream ended without a newline."""
        return self.add(b"\n") if self._pending else b""
