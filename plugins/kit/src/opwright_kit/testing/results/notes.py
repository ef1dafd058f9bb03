"""Notes of what a process is running, to be read after it has crashed."""

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
        The key of the kernel, or another activity: ``"acme.swish[cpu, float32, acme]"``.
    sample : str
        As `Sample.describe` returns it; empty if there is none.
    number : int
        Of the sample; -1 if there is none.
    dtype : str
        The dispatch dtype for which it was drawn.
    """

    what: str = ""
    sample: str = ""
    number: int = -1
    dtype: str = ""


_HEAD: Final = struct.Struct("=QI")
"""The number of notes so far, and the size of the last one in bytes."""


class NoteFile:
    """The latest note, in an open file that another process reads once this one has ended.

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
        """Return the number of notes so far; may be called at any time."""
        return _HEAD.unpack(self._read(_HEAD.size, 0))[0] if self._is_written() else 0

    def read(self) -> Note:
        """Return the last note of a process that has ended; an empty one if there is none."""
        if not self._is_written():
            return Note()
        _, size = _HEAD.unpack(self._read(_HEAD.size, 0))
        return Note(*json.loads(self._read(size, _HEAD.size)))

    def _is_written(self) -> bool:
        return os.fstat(self._file).st_size > _HEAD.size

    def _read(self, size: int, offset: int) -> bytes:
        return os.pread(self._file, size, offset)
