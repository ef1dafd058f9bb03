"""The generations of a folder; each save adds a complete generation under the next number.

A generation is a folder. The folder is written under a temporary name and then renamed to its
number, which fails if another saver has taken the number. The rename publishes a save; savers do
not need any other synchronization. See ``docs/decisions/0047-generations.md``.

All temporary names of a saver end with its token. A saver holds a file lock until it has saved; the
system releases the lock whenever the process ends. A lock only determines which files are
leftovers; if a saver's files were removed by mistake, the saver rewrites them.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

from opwright.disk import (
    StrPath,
    is_same,
    kind_of,
    make_folder,
    make_inner_folder,
    remove_folder,
    sync_folder,
)
from opwright.errors import FileTakenError, FormatError
from opwright.program.files.manifest import PARAMS, PROGRAM

if TYPE_CHECKING:
    from pathlib import Path

GENERATIONS: Final = "generations"
LATEST: Final = "latest"

_LOCK: Final = ".saving-"
_NEW: Final = ".new-"
_OLD: Final = ".old-"
_LINK: Final = ".link-"
_ABANDONED_S: Final = 24 * 3600
"""Without file locks, a saver counts as terminated if another saver started this much later."""

_NUMBER: Final = re.compile(r"[0-9]{8,15}")
_MAX_NUMBER: Final = 10**15 - 1
_MAX_TRIES: Final = 100
_TAKEN: Final = frozenset({errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR})
_WITHOUT_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS})

Fill: TypeAlias = "Callable[[Path], None]"
"""Writes the files of a generation into an empty folder."""


def name_of(number: int) -> str:
    """Return the folder name of a generation."""
    return f"{number:08d}"


def list_numbers(folder: StrPath) -> list[int]:
    """Return the generation numbers in a folder, in ascending order."""
    try:
        names = os.listdir(os.path.join(folder, GENERATIONS))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(int(name) for name in names if _NUMBER.fullmatch(name))


def find_newest(folder: StrPath) -> int | None:
    """Return the number of the newest generation, which `load` reads, or None."""
    return next(reversed(list_numbers(folder)), None)


def link_text(name: str) -> str:
    """Return the target that the top-level link with this name must have."""
    return f"{LATEST}/{name}"


@contextmanager
def saving_to(folder: Path) -> Iterator[Saver]:
    """Prepare a folder, and remove the files that terminated savers have left in it.

    Raises FileTakenError if a file that `save` did not create has the name of a top-level link.
    """
    make_folder(folder)
    _check_links(folder)
    generations = folder / GENERATIONS
    make_inner_folder(generations)
    with Saver(folder, generations) as saver:
        saver.clean()
        yield saver


def _check_links(folder: Path) -> None:
    for name, may_be_file in ((LATEST, False), (PROGRAM, True), (PARAMS, True)):
        path = folder / name
        if not os.path.lexists(path):
            continue
        mode = os.lstat(path).st_mode
        if not stat.S_ISLNK(mode) and not (may_be_file and stat.S_ISREG(mode)):
            raise FileTakenError(
                f"{path}: must be a link that opwright.save made, got {kind_of(mode)}; move it"
            )


def publish(folder: Path, saver: Saver, fill: Fill, number: int | None = None) -> None:
    """Write a generation and give it the next number.

    If `number` is given, the generation gets it, or is discarded if the number is taken. After an
    OSError, such as a full disk, `load` returns what it returned before.
    """
    for _ in range(_MAX_TRIES):
        new = saver.new_folder
        try:
            new.mkdir()
            fill(new)
            sync_folder(new)
            published = _take_number(folder, new, number)
        except FileNotFoundError:
            if new.exists():
                raise
            published = False
        if published:
            sync_folder(folder / GENERATIONS)
            return
        if new.exists():  # the requested number is taken
            remove_folder(new)
            return
        # Otherwise another saver has assumed that this saver ended, since there are no locks.
    raise OSError(
        errno.EBUSY, "other savers remove the files that are being written", os.fspath(folder)
    )


def _take_number(folder: Path, new: Path, only: int | None) -> bool:
    """Rename a folder to the next number; False if it was removed, or its only number is taken."""
    status = os.lstat(new)
    for _ in range(_MAX_TRIES):
        # `utime` makes an NFS client request the names from the server instead of using its cache.
        os.utime(folder / GENERATIONS)
        number = (find_newest(folder) or 0) + 1 if only is None else only
        if number > _MAX_NUMBER:
            raise FormatError(f"{folder}: generations must have numbers up to {_MAX_NUMBER}")
        target = folder / GENERATIONS / name_of(number)
        try:
            new.rename(target)
        except FileNotFoundError:
            # Over NFS, the reply to a successful rename may be lost, and the client's retry fails.
            return is_same(status, target)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
            if only is not None:
                return False
        else:
            return True
    raise OSError(errno.EBUSY, "every number was taken by another saver", os.fspath(folder))


def point_to_newest(folder: Path, saver: Saver) -> None:
    """Point the links at the top to the newest generation, for users and other tools."""
    changed = True
    while changed:  # the saver of a newer generation may have set the links first
        changed = False
        newest = f"{GENERATIONS}/{name_of(find_newest(folder) or 0)}"
        for name, text in (
            (LATEST, newest),
            (PROGRAM, link_text(PROGRAM)),
            (PARAMS, link_text(PARAMS)),
        ):
            if read_link(folder / name) != text:
                _replace_link(folder / name, text, saver)
                changed = os.path.lexists(folder / name)
    sync_folder(folder)


def read_link(path: StrPath) -> str | None:
    """Return the target of a link, or None for anything else."""
    try:
        return os.readlink(path)
    except OSError:
        return None


def _replace_link(path: Path, text: str, saver: Saver) -> None:
    """Replace a file by a link; if the file system does not support links, only remove it."""
    try:
        saver.new_link.symlink_to(text)
    except OSError as error:
        if error.errno not in _WITHOUT_LINKS:
            raise
        path.unlink(missing_ok=True)
    else:
        saver.new_link.rename(path)


def remove_old(folder: Path, saver: Saver, keep: int) -> None:
    """Remove all but the newest `keep` generations; warn on failure."""
    try:
        for number in list_numbers(folder)[:-keep]:
            saver.retire(folder / GENERATIONS / name_of(number))
    except OSError as error:
        warnings.warn(
            f"save: {folder} is saved, but an older generation cannot be removed, got {error}",
            RuntimeWarning,
            stacklevel=3,
        )


# -- savers of a folder, and the left-over files of ended ones -------------------------------------


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
            os.close(self._handle)  # another saver removed it before it was locked

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
        """The temporary path of a new link."""
        return self._folder / (_LINK + self.token)

    def retire(self, generation: Path) -> None:
        """Remove a generation; readers lose it at once, before its files are deleted."""
        retired = self._generations / (_OLD + os.urandom(8).hex())
        try:
            generation.rename(retired)
        except FileNotFoundError:
            return  # another saver was faster
        remove_folder(retired)

    def clean(self) -> None:
        """Remove the files of savers that have ended."""
        for name in [path.name for path in self._generations.iterdir()]:
            if name.startswith(_OLD):
                remove_folder(self._generations / name)
            elif name.startswith(_LOCK) and name != _LOCK + self.token:
                self._clean_after(name.removeprefix(_LOCK))
            elif name.startswith(_NEW) and not self._has_lock(name.removeprefix(_NEW)):
                remove_folder(self._generations / name)

    def _has_lock(self, token: str) -> bool:
        # A saver creates the lock file first and removes it last, so the file may exist although it
        # is missing from a listing that was read meanwhile.
        return os.path.lexists(self._generations / (_LOCK + token))

    def _clean_after(self, token: str) -> None:
        path = self._generations / (_LOCK + token)
        try:
            handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return  # it was removed meanwhile, or belongs to another user
        try:
            locked = _try_lock(handle)
            if locked or (locked is None and self._is_abandoned(handle)):
                _remove_work(self._folder, self._generations, token)
        finally:
            os.close(handle)

    def _is_abandoned(self, handle: int) -> bool:
        # Both times are from the clock of the machine that has the disk.
        return os.fstat(self._handle).st_mtime - os.fstat(handle).st_mtime > _ABANDONED_S


def _remove_work(folder: Path, generations: Path, token: str) -> None:
    """Remove the files of a saver, the lock last."""
    remove_folder(generations / (_NEW + token))
    (folder / (_LINK + token)).unlink(missing_ok=True)
    (generations / (_LOCK + token)).unlink(missing_ok=True)


def _try_lock(handle: int) -> bool | None:
    """Acquire a lock; return whether it was free, or None if the file system lacks locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True
