"""Opens the files of one saved state: each file once, and all of the same generation."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from opwright.errors import AttributeTypeError, FileMissingError, FormatError
from opwright.program.files.disk import StrPath, open_folder, open_regular
from opwright.program.files.generations import (
    GENERATIONS,
    find_newest,
    list_numbers,
    name_of,
)
from opwright.program.files.manifest import MANIFEST, PARAMS, PROGRAM, Manifest, read_manifest
from opwright.program.files.pair import (
    OpenFile,
    check_top_level,
    open_params,
    read_open_program,
    read_program,
)
from opwright.program.files.params_file import digest_of, read_mark

_MAX_TRIES: Final = 100
_GONE: Final = frozenset({errno.ENOENT, errno.ESTALE})

Read = TypeVar("Read")


def folder_of(who: str, path: object) -> str:
    """Return the argument `path` of the function `who`; AttributeTypeError if it is no path."""
    if not isinstance(path, str | os.PathLike):
        raise AttributeTypeError(
            f"{who}: path must be a str or a path, got {path!r}; the folder comes first"
        )
    return os.fspath(path)


class SavedFiles(NamedTuple):
    """The files of one saved state; an `ExitStack` of whoever opened them closes them.

    Those of a generation are opened at once, through its folder: they belong together, and a saver
    that removes them does no harm. `stays` says whether nothing writes into them: `save` only adds
    and removes generations. A pair by itself, see `opwright.program.files.pair`, has no `notes`.
    """

    read_program: Callable[[], bytes]
    open_params: Callable[[bytes], OpenFile]
    notes: dict[str, Any]
    stays: bool


def _open_generation(folder: StrPath, handle: int, stack: ExitStack) -> SavedFiles:
    manifest = read_manifest(os.path.join(folder, MANIFEST), handle)
    program, params = (
        (path, stack.enter_context(open_regular(path, handle)))
        for path in (os.path.join(folder, PROGRAM), os.path.join(folder, PARAMS))
    )
    return SavedFiles(
        partial(_read_program, program, manifest),
        partial(_check_params, params, manifest),
        manifest.notes,
        stays=True,
    )


def _read_program(file: OpenFile, manifest: Manifest) -> bytes:
    """Return the bytes of the program; FormatError if they are not those of the manifest."""
    program = read_open_program(*file)
    digest = manifest.mark.program
    if len(program) != manifest.program_bytes or digest_of(program) != digest:
        raise FormatError(
            f"{file[0]}: truncated or damaged, got other bytes than its {MANIFEST} says"
        )
    return program


def _check_params(file: OpenFile, manifest: Manifest, program: bytes) -> OpenFile:
    """Return the parameters; FormatError if they are not those of the manifest."""
    path, handle = file
    size_bytes = os.fstat(handle).st_size
    if size_bytes != manifest.params_bytes or read_mark(path, handle) != manifest.mark:
        raise FormatError(
            f"{path}: truncated or damaged, got {size_bytes} bytes that are not those of "
            f"its {MANIFEST}, which says {manifest.params_bytes}"
        )
    return file


def read_saved(folder: StrPath, read: Callable[[SavedFiles], Read]) -> Read:
    """Return what `read` returns for the newest generation, or for a pair by itself.

    If that fails, and another process has saved meanwhile, the new generation is read instead.
    FileMissingError if the folder has no saved program.
    """
    for _ in range(_MAX_TRIES):
        newest = find_newest(folder)
        try:
            with _open(folder, newest) as files:
                return read(files)
        except (FormatError, OSError) as error:
            if find_newest(folder) != newest:
                failure: OSError | FormatError = error
                continue
            if isinstance(error, OSError) and error.errno in _GONE:
                error = _missing(folder, newest, error)
            _note_older(folder, newest, error)
            raise error from None
    raise failure


@contextlib.contextmanager
def _open(folder: StrPath, newest: int | None) -> Iterator[SavedFiles]:
    path = folder
    if newest is not None:
        check_top_level(folder)
        path = os.path.join(folder, GENERATIONS, name_of(newest))
    with ExitStack() as stack:
        try:
            handle = stack.enter_context(open_folder(path))
        except NotADirectoryError:
            raise FileMissingError(errno.ENOENT, "not a folder", os.fspath(path)) from None
        if newest is not None or os.path.lexists(os.path.join(path, MANIFEST)):
            yield _open_generation(path, handle, stack)
        else:
            program = partial(read_program, os.path.join(path, PROGRAM), follow=True)
            yield SavedFiles(program, partial(open_params, stack, path), {}, stays=False)


def _missing(folder: StrPath, newest: int | None, error: OSError) -> FileMissingError | FormatError:
    """Return the error for a missing file, which says what the folder has."""
    name = os.path.basename(error.filename or PROGRAM)
    if newest is not None:
        generation = os.path.join(folder, GENERATIONS, name_of(newest))
        return FormatError(
            f"{generation}: must hold {MANIFEST}, {PROGRAM} and {PARAMS}, got none by the name of "
            f"{name}; remove the folder to load the generation before"
        )
    if name == PARAMS:
        return FileMissingError(
            f"{os.path.join(folder, name)}: must be beside the program that it was saved with, got "
            "no such file; save both again"
        )
    if os.path.isdir(folder):
        got = f"a folder without {PROGRAM}"
    else:
        got = "a file" if os.path.exists(folder) else "no such folder"
    begin = "" if os.path.isabs(folder) else f", which begins at {os.getcwd()}"
    return FileMissingError(
        f"{folder}: must be a folder that opwright.save has written, with {PROGRAM} and {PARAMS} "
        f"in it, got {got}; check the path{begin}"
    )


def _note_older(folder: StrPath, newest: int | None, error: Exception) -> None:
    older = [number for number in list_numbers(folder) if number != newest]
    if older:
        path = os.path.join(folder, GENERATIONS, name_of(older[-1]))
        error.add_note(f"the generation before it: opwright.load({os.fspath(path)!r})")
