"""The generations of a folder: each save adds one, complete, under the next number.

A generation is a folder. It is written under a temporary name and gets its number by a rename,
which fails if another saver has taken the number. This rename publishes a save, and nothing else
is needed to keep savers apart. See ``docs/decisions/0047-generations.md``.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

from opwright.errors import FileTakenError, FormatError
from opwright.program.files.disk import (
    StrPath,
    is_same,
    kind_of,
    make_folder,
    make_inner_folder,
    remove_folder,
    sync_folder,
)
from opwright.program.files.manifest import PARAMS, PROGRAM
from opwright.program.files.savers import Saver

if TYPE_CHECKING:
    from pathlib import Path

GENERATIONS: Final = "generations"
LATEST: Final = "latest"

_NUMBER: Final = re.compile(r"[0-9]{8,15}")
_MAX_NUMBER: Final = 10**15 - 1
_MAX_TRIES: Final = 100
_TAKEN: Final = frozenset({errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR})
_WITHOUT_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS})

Fill: TypeAlias = "Callable[[Path], None]"
"""Writes the files of a generation into an empty folder."""


def name_of(number: int) -> str:
    """Return the name of a generation's folder."""
    return f"{number:08d}"


def list_numbers(folder: StrPath) -> list[int]:
    """Return the numbers of the generations of a folder, the newest last."""
    try:
        names = os.listdir(os.path.join(folder, GENERATIONS))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(int(name) for name in names if _NUMBER.fullmatch(name))


def find_newest(folder: StrPath) -> int | None:
    """Return the number of the newest generation, which is loaded; None where there is none."""
    return next(reversed(list_numbers(folder)), None)


def link_text(name: str) -> str:
    """Return the target of the link of this name at the top of a folder."""
    return f"{LATEST}/{name}"


@contextmanager
def saving_to(folder: Path) -> Iterator[Saver]:
    """Prepare a folder, and remove the files that ended savers have left in it.

    FileTakenError if something that `save` has not made has the name of a link at its top.
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
                f"{path}: opwright.save makes a link here, got {kind_of(mode)}; move it away"
            )


def publish(folder: Path, saver: Saver, fill: Fill, number: int | None = None) -> None:
    """Write a generation and give it the next number.

    With `number` it gets this number, or nothing is added if that is taken. After an OSError, such
    as that of a full disk, `load` returns what it returned before.
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
        if new.exists():  # the only number is taken
            remove_folder(new)
            return
        # Else another saver took this one for ended, which it cannot know without locks.
    raise OSError(errno.EBUSY, "other savers remove what is being written", os.fspath(folder))


def _take_number(folder: Path, new: Path, only: int | None) -> bool:
    """Rename a folder to the next number; False if it vanished, or the only number is taken."""
    status = os.lstat(new)
    for _ in range(_MAX_TRIES):
        # Makes an NFS client ask the server for the names, instead of using those it has cached.
        os.utime(folder / GENERATIONS)
        number = (find_newest(folder) or 0) + 1 if only is None else only
        if number > _MAX_NUMBER:
            raise FormatError(f"{folder}: generations must have numbers up to {_MAX_NUMBER}")
        target = folder / GENERATIONS / name_of(number)
        try:
            new.rename(target)
        except FileNotFoundError:
            # Over NFS the answer to a successful rename may be lost: the client's retry then fails.
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
    """Let the links at the top lead to the newest generation, for people and for other tools."""
    changed = True
    while changed:  # the saver of a newer one may have set the links before this one
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
    """Return where a link points; None for anything else."""
    try:
        return os.readlink(path)
    except OSError:
        return None


def _replace_link(path: Path, text: str, saver: Saver) -> None:
    """Replace a file by a link; where the file system has no links, only remove it."""
    try:
        saver.new_link.symlink_to(text)
    except OSError as error:
        if error.errno not in _WITHOUT_LINKS:
            raise
        path.unlink(missing_ok=True)
    else:
        saver.new_link.rename(path)


def remove_old(folder: Path, saver: Saver, keep: int) -> None:
    """Remove all but the newest `keep` generations; warn where that fails."""
    try:
        for number in list_numbers(folder)[:-keep]:
            saver.retire(folder / GENERATIONS / name_of(number))
    except OSError as error:
        warnings.warn(
            f"save: {folder} is saved, but an older generation cannot be removed, got {error}",
            RuntimeWarning,
            stacklevel=3,
        )
