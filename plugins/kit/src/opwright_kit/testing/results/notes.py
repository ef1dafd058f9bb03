"""Notes of what is being run: a process that ends in the middle of it leaves them behind."""

from __future__ import annotations

import json
import os
import struct
from typing import Final, NamedTuple


class Note(NamedTuple):
    """What a process is about to run.

    Attributes
    ----------
    what : str
        The kernel by its key, or what else is done: ``"acme.swish[cpu, float32, acme]"``.
    sample : str
        As `Sample.describe` says it; empty where there is none.
    number : int
        Of the sample; -1 where it has none.
    dtype : str
        For which it was drawn.
    """

    what: str = ""
    sample: str = ""
    number: int = -1
    dtype: str = ""


_HEAD: Final = struct.Struct("=QI")
"""How many notes there were, and the bytes of the last one."""


class NoteFile:
    """One note in an open file, which another process reads once this one has ended.

    Parameters
    ----------
    file : int
        Descriptor of a file that both processes have open.
    """

    def __init__(self, file: int) -> None:
        self._file = file
        self._count = 0

    def write(self, note: Note) -> None:
        """Replace the note."""
        self._count += 1
        text = json.dumps(note).encode()
        os.pwrite(self._file, _HEAD.pack(self._count, len(text)) + text, 0)

    def count(self) -> int:
        """Return how many notes there were: at any time."""
        return _HEAD.unpack(self._read(_HEAD.size, 0))[0] if self._is_written() else 0

    def read(self) -> Note:
        """Return the last note, of a process that has ended; an empty one where there is none."""
        if not self._is_written():
            return Note()
        _, size = _HEAD.unpack(self._read(_HEAD.size, 0))
        return Note(*json.loads(self._read(size, _HEAD.size)))

    def _is_written(self) -> bool:
        return os.fstat(self._file).st_size > _HEAD.size

    def _read(self, size: int, offset: int) -> bytes:
        return os.pread(self._file, size, offset)
