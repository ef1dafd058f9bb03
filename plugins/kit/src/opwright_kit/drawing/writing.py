"""Writes files completely, or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from opwright.errors import FileTakenError


def check_target(path: Path, *, force: bool) -> None:
    """Raise an error if `write_whole` could not write this file.

    Raises
    ------
    FileTakenError
        If the file exists and `force` is not given.
    IsADirectoryError, FileNotFoundError
        If the path is a folder, or its folder does not exist.
    """
    if path.is_dir():
        raise IsADirectoryError(f"graph: must be given a file to write, got the folder {path}")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"graph: the folder must exist, got {path.parent}; create it first")
    if path.exists() and not force:
        raise _taken(path)


def write_whole(path: Path, text: str, *, force: bool) -> None:
    """Write a file under a temporary name in the same folder and rename it.

    Raises
    ------
    FileTakenError, IsADirectoryError, FileNotFoundError
        As `check_target` does.
    OSError
        If it cannot be written; an existing file is unchanged.
    """
    check_target(path, force=force)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if not force:
            path.open("x").close()  # claims the name; fails if it exists by now
        temporary.replace(path)
    except FileExistsError as error:
        raise _taken(path) from error
    finally:
        temporary.unlink(missing_ok=True)


def _taken(path: Path) -> FileTakenError:
    return FileTakenError(
        f"graph: the file must not exist yet, got {path}; choose another, or replace it with "
        "--force (in Python: force=True)"
    )
