"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from opwright.errors import FileTakenError


def write_whole(path: Path, text: str, *, force: bool) -> None:
    """Write a file under a temporary name beside it and rename it.

    Raises
    ------
    FileTakenError
        Where the file exists and `force` is not given.
    OSError
        Where it cannot be written; an old file is as before.
    """
    if path.is_dir():
        raise IsADirectoryError(f"graph: must be given a file to write, got the folder {path}")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"graph: the folder must exist, got {path.parent}; make it first")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if not force:
            path.open("x").close()  # the name is ours from here on, or somebody else's before
        temporary.replace(path)
    except FileExistsError as error:
        raise FileTakenError(
            f"graph: the file must not exist yet, got {path}; choose another, or replace it with "
            "--force (in Python: force=True)"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
