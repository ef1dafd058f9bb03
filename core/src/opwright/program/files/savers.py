"""The savers of a folder, and the removal of files that ended savers have left behind.

The temporary names of a saver end with its token. It holds a lock on a file until it has saved; the
system releases the lock when the process ends, for whatever reason. A lock decides only which files
are left-overs: a saver whose files were removed as left-overs writes them again.
"""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING, Final

from opwright.program.files.disk import is_same, remove_folder

if TYPE_CHECKING:
    from pathlib import Path

_LOCK: Final = ".saving-"
_NEW: Final = ".new-"
_OLD: Final = ".old-"
_LINK: Final = ".link-"
_ABANDONED_S: Final = 24 * 3600
"""Where a file system has no locks, a saver that began so long before another one has ended."""


class Saver:
    """The temporary names of one call of `save`; `generations` is a folder in `folder`."""

    def __init__(self, folder: Path, generations: Path) -> None:
        self._folder = folder
        self._generations = generations

    def __enter__(self) -> Saver:
        while True:
            self.token = os.urandom(8).hex()
            path = self._generations / (_LOCK + self.token)
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
            try:
                is_free = _try_lock(self._handle) is not False
                if is_free and is_same(os.fstat(self._handle), path):
                    return self
            except BaseException:  # `__exit__`, which closes the file, is not called then
                os.close(self._handle)
                raise
            os.close(self._handle)  # another saver has removed it before it was locked

    def __exit__(self, *error: object) -> None:
        try:
            _remove_work(self._folder, self._generations, self.token)
        finally:
            os.close(self._handle)

    @property
    def new_folder(self) -> Path:
        """The folder of a generation before it has a number."""
        return self._generations / (_NEW + self.token)

    @property
    def new_link(self) -> Path:
        """The path of a link before it has its name."""
        return self._folder / (_LINK + self.token)

    def retire(self, generation: Path) -> None:
        """Remove a generation: readers lose it at once, then it leaves the disk."""
        retired = self._generations / (_OLD + os.urandom(8).hex())
        try:
            generation.rename(retired)
        except FileNotFoundError:
            return  # another saver was quicker
        remove_folder(retired)

    def clean(self) -> None:
        """Remove the files that ended savers have left behind."""
        for name in [path.name for path in self._generations.iterdir()]:
            if name.startswith(_OLD):
                remove_folder(self._generations / name)
            elif name.startswith(_LOCK) and name != _LOCK + self.token:
                self._clean_after(name.removeprefix(_LOCK))
            elif name.startswith(_NEW) and not self._has_lock(name.removeprefix(_NEW)):
                remove_folder(self._generations / name)

    def _has_lock(self, token: str) -> bool:
        # A saver creates the lock first and removes it last: it may exist although a listing that
        # was read meanwhile lacks it.
        return os.path.lexists(self._generations / (_LOCK + token))

    def _clean_after(self, token: str) -> None:
        path = self._generations / (_LOCK + token)
        try:
            handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return  # removed meanwhile, or of another user, who will clean it
        try:
            locked = _try_lock(handle)
            if locked or (locked is None and self._is_abandoned(handle)):
                _remove_work(self._folder, self._generations, token)
        finally:
            os.close(handle)

    def _is_abandoned(self, handle: int) -> bool:
        # Both times are from the clock of the machine with the disk.
        return os.fstat(self._handle).st_mtime - os.fstat(handle).st_mtime > _ABANDONED_S


def _remove_work(folder: Path, generations: Path, token: str) -> None:
    """Remove the files of a saver, the lock last."""
    remove_folder(generations / (_NEW + token))
    (folder / (_LINK + token)).unlink(missing_ok=True)
    (generations / (_LOCK + token)).unlink(missing_ok=True)


def _try_lock(handle: int) -> bool | None:
    """Take a lock; return whether it was free, None where the file system has no locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True
