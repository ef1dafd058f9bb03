"""The generations of a folder: each save makes one, whole, under the next number.

A generation is a folder. It is written under a name of its own and gets its number by a rename,
which fails where another saver has taken the number: that rename publishes a save, and alone keeps
savers apart. See ``docs/decisions/0047-generations.md``.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from opwright.errors import FileTakenError, FormatError
from opwright.program.files.disk import (
    kind_of,
    make_folder,
    make_inner_folder,
    remove_file,
    remove_folder,
    sync_folder,
)
from opwright.program.files.manifest import PARAMS, PROGRAM
from opwright.program.files.savers import Saver

GENERATIONS: Final = "generations"
LATEST: Final = "latest"

_NUMBER: Final = re.compile(r"[0-9]{8,15}")
_MAX_NUMBER: Final = 10**15 - 1
_MAX_TRIES: Final = 100
_TAKEN: Final = frozenset({errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR})
_WITHOUT_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS})

Fill = Callable[[Path], None]
"""Writes the files of a generation into a folder that is empty."""


def name_of(number: int) -> str:
    """Return the name of a generation's folder."""
    return f"{number:08d}"


def list_numbers(folder: Path) -> list[int]:
    """Return the numbers of the generations of a folder, the newest last."""
    try:
        names = [path.name for path in (folder / GENERATIONS).iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(int(name) for name in names if _NUMBER.fullmatch(name))


def find_newest(folder: Path) -> int | None:
    """Return the number of the generation that is loaded, None where there is none."""
    numbers = list_numbers(folder)
    return numbers[-1] if numbers else None


def link_text(name: str) -> str:
    """Return where the link of this name at the top of a folder points."""
    return f"{LATEST}/{name}"


@contextmanager
def saving_to(folder: Path) -> Iterator[Saver]:
    """Make a folder ready, and remove the files that ended savers have left in it.

    Raises
    ------
    FileTakenError
        Where something that `save` has not made has the name of a link at its top.
    OSError
        Where the folder cannot be written.
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

    Parameters
    ----------
    folder : Path
        What is saved to.
    saver : Saver
        Of this call.
    fill : callable
        Writes the files.
    number : int, optional
        The only number that it may have: where that is taken, nothing is added.

    Raises
    ------
    OSError
        Where the disk is full, or the folder cannot be written; what is loaded is as before.
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
        # Otherwise another saver took this one for dead, which without locks it cannot know.
    raise OSError(errno.EBUSY, "other savers remove what is being written", os.fspath(folder))


def _take_number(folder: Path, new: Path, only: int | None) -> bool:
    """Rename a folder to the next number; False where it vanished, or the only number is taken."""
    identity = os.lstat(new)
    for _ in range(_MAX_TRIES):
        # A client of NFS then asks the server for the names, instead of what it remembers of them.
        os.utime(folder / GENERATIONS)
        number = (find_newest(folder) or 0) + 1 if only is None else only
        if number > _MAX_NUMBER:
            raise FormatError(f"{folder}: generations must have numbers up to {_MAX_NUMBER}")
        target = folder / GENERATIONS / name_of(number)
        try:
            new.rename(target)
        except FileNotFoundError:
            # Over NFS a rename may be done, and its answer lost: the second attempt then fails.
            return _is_same(identity, target)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
            if only is not None:
                return False
        else:
            return True
    raise OSError(errno.EBUSY, "every number was taken by another saver", os.fspath(folder))


def _is_same(identity: os.stat_result, path: Path) -> bool:
    try:
        return os.path.samestat(identity, os.lstat(path))
    except FileNotFoundError:
        return False


def point_to_newest(folder: Path, saver: Saver) -> None:
    """Let the links at the top lead to the newest generation, for people and for other tools."""
    changed = True
    while changed:  # the saver of a newer one may have pointed there before this one
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


def read_link(path: Path) -> str | None:
    """Return where a link points; None for anything else."""
    try:
        return str(path.readlink())
    except OSError:
        return None


def _replace_link(path: Path, text: str, saver: Saver) -> None:
    """Make a link in the place of a file; where the file system has no links, only remove it."""
    try:
        saver.new_link.symlink_to(text)
    except OSError as error:
        if error.errno not in _WITHOUT_LINKS:
            raise
        remove_file(path)
    else:
        saver.new_link.rename(path)


def remove_old(folder: Path, saver: Saver, keep: int) -> None:
    """Leave the newest `keep` generations; what cannot be removed is reported and stays."""
    try:
        for number in list_numbers(folder)[:-keep]:
            saver.retire(folder / GENERATIONS / name_of(number))
    except OSError as error:
        warnings.warn(
            f"save: {folder} is saved, but an older generation cannot be removed, got {error}",
            RuntimeWarning,
            stacklevel=3,
        )
