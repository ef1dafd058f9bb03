"""The two files of a saved program, replaced together: a crash leaves the old pair or the new one.

See ``docs/decisions/0003-saving.md`` for why this order of writing and renaming is enough.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from opwright.errors import AttributeTypeError, FileMissingError, FormatError
from opwright.saving.params_file import Arrays, check_belongs, digest_of, write_params

PROGRAM: Final = "program.pb"
PARAMS: Final = "params.safetensors"
_NEW: Final = ".new"


def folder_of(who: str, path: object) -> Path:
    """Return what a user gave as a folder as a Path; AttributeTypeError names `who` otherwise."""
    if not isinstance(path, str | os.PathLike):
        raise AttributeTypeError(
            f"{who}: path must be a str or a path, got {path!r}; the folder comes first"
        )
    return Path(path)


def replace_pair(folder: Path, program: bytes, arrays: Arrays) -> None:
    """Write both files of a folder, which is made where there is none.

    Raises
    ------
    OSError
        Where the disk is full, or the folder cannot be written; the old files are as before.
    """
    folder.mkdir(parents=True, exist_ok=True)
    finish_interrupted(folder)
    new_program, new_params = folder / (PROGRAM + _NEW), folder / (PARAMS + _NEW)
    try:
        write_params(new_params, arrays, digest_of(program))
        _write(new_program, program)
        _sync_folder(folder)
        # The moment: from here on the folder holds the new program, and `find_params` takes the
        # new parameters, whatever they are called.
        new_program.replace(folder / PROGRAM)
    except BaseException:
        for path in (new_program, new_params):
            path.unlink(missing_ok=True)
        raise
    _sync_folder(folder)
    new_params.replace(folder / PARAMS)
    _sync_folder(folder)


def find_params(folder: Path, program: bytes) -> Path:
    """Return the parameters file that belongs to a program.

    After a save that was interrupted between its two renames it has its temporary name yet.

    Raises
    ------
    FileMissingError, FormatError
        Where there is none; it says what is wrong with ``params.safetensors``.
    """
    path, interrupted = folder / PARAMS, folder / (PARAMS + _NEW)
    try:
        check_belongs(path, program)
    except (FileMissingError, FormatError):
        with contextlib.suppress(FileMissingError, FormatError):
            check_belongs(interrupted, program)
            return interrupted
        raise
    return path


def finish_interrupted(folder: Path) -> None:
    """Rename what an interrupted save has left, if it is the parameters of the program there.

    Otherwise the next save would write over the only parameters that fit.
    """
    with contextlib.suppress(FileNotFoundError, FormatError):
        found = find_params(folder, (folder / PROGRAM).read_bytes())
        if found.name != PARAMS:
            found.replace(folder / PARAMS)
            _sync_folder(folder)


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Make renames last: a folder is a file of names, which has to reach the disk as well."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
