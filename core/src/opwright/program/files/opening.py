"""Opens the files of one saved state: each file once, and all of the same generation."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Final, TypeVar

from opwright.errors import AttributeTypeError, FileMissingError, FormatError
from opwright.program.files.disk import StrPath, open_folder, open_regular
from opwright.program.files.generations import (
    GENERATIONS,
    find_newest,
    list_numbers,
    name_of,
)
from opwright.program.files.manifest import MANIFEST, PARAMS, PROGRAM, read_manifest
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


class SavedPair:
    """The files of a pair by itself; see `opwright.program.files.pair`. `stack` closes them.

    It has no `notes`: a pair has no manifest. `stays` says whether nothing writes into its files:
    `save` only adds and removes generations.
    """

    stays = False

    def __init__(self, folder: StrPath, stack: ExitStack) -> None:
        self.folder = folder
        self.notes: dict[str, Any] = {}
        self._stack = stack

    def read_program(self) -> bytes:
        """Return the bytes of the program."""
        return read_program(os.path.join(self.folder, PROGRAM), follow=True)

    def open_params(self, program: bytes) -> OpenFile:
        """Return the parameters that were saved with the program."""
        return open_params(self._stack, self.folder, program)


class SavedGeneration(SavedPair):
    """The files of a generation, all of them open: a saver that removes them does no harm.

    They are opened through `handle`, the open folder, and so belong to one generation.
    """

    stays = True

    def __init__(self, folder: StrPath, handle: int, stack: ExitStack) -> None:
        super().__init__(folder, stack)
        self._manifest = read_manifest(os.path.join(folder, MANIFEST), handle)
        self._program = stack.enter_context(open_regular(os.path.join(folder, PROGRAM), handle))
        self._params = stack.enter_context(open_regular(os.path.join(folder, PARAMS), handle))
        self.notes = self._manifest.notes

    def read_program(self) -> bytes:
        """Return the bytes of the program; FormatError if they are not those of the manifest."""
        path = os.path.join(self.folder, PROGRAM)
        program = read_open_program(path, self._program)
        digest = self._manifest.mark.program
        if len(program) != self._manifest.program_bytes or digest_of(program) != digest:
            raise FormatError(
                f"{path}: truncated or damaged, got other bytes than its {MANIFEST} says"
            )
        return program

    def open_params(self, program: bytes) -> OpenFile:
        """Return the parameters; FormatError if they are not those of the manifest."""
        path, manifest = os.path.join(self.folder, PARAMS), self._manifest
        size_bytes = os.fstat(self._params).st_size
        if size_bytes != manifest.params_bytes or read_mark(path, self._params) != manifest.mark:
            raise FormatError(
                f"{path}: truncated or damaged, got {size_bytes} bytes that are not those of "
                f"its {MANIFEST}, which says {manifest.params_bytes}"
            )
        return path, self._params


def read_saved(folder: StrPath, read: Callable[[SavedPair], Read]) -> Read:
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
def _open(folder: StrPath, newest: int | None) -> Iterator[SavedPair]:
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
            yield SavedGeneration(path, handle, stack)
        else:
            yield SavedPair(path, stack)


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
