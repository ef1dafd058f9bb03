"""Writes the files of a package: all of them, or none."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from opwright_kit.scaffold.errors import ScaffoldError


def write_package(folder: Path, files: Mapping[str, str]) -> None:
    """Write `files` below a new `folder`.

    The files are written to a temporary folder next to `folder`, which is renamed once it is
    complete.

    Parameters
    ----------
    folder : Path
        The new folder, which must not exist; its parent must exist.
    files : mapping of str to str
        Path below the folder, and text.

    Raises
    ------
    ScaffoldError
        If the folder exists or cannot be written; no files are left.
    """
    check_folder(folder)
    try:
        unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise ScaffoldError(_explain(folder, error)) from error
    try:
        _write(unfinished, files)
        unfinished.rename(folder)
    except OSError as error:
        raise ScaffoldError(_explain(folder, error)) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def check_folder(folder: Path) -> None:
    """Raise for an existing folder, and for a missing parent.

    Raises
    ------
    ScaffoldError
        Suggests an alternative.
    """
    if os.path.lexists(folder):
        raise ScaffoldError(
            f"new: the folder must not exist, got {str(folder)!r}; "
            "choose another name, move it away, or write elsewhere with --into FOLDER"
        )
    if not folder.parent.is_dir():
        raise ScaffoldError(
            f"new: the package must go into an existing folder, got {str(folder.parent)!r}; make it"
        )


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    # A temporary folder is private; a package gets the permissions that the umask allows.
    folder.chmod(next(path for path in folder.iterdir() if path.is_dir()).stat().st_mode)


def _explain(folder: Path, error: OSError) -> str:
    return (
        f"new: {str(folder)!r} cannot be written, got {type(error).__name__}: "
        f"{error.strerror or error}; choose a folder of yours with --into FOLDER"
    )
