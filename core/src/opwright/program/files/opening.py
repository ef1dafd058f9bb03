"""Opens the files of one saved state, each file once, and all from the same generation.

The two files at the top of a folder are links to the newest generation, or a standalone pair that
was copied from a generation. The first `save` to the folder of a pair turns the pair into a
generation, then adds its own.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from opwright.describe.dtypes import Array
from opwright.describe.wire_reading import MAX_PROGRAM_BYTES
from opwright.describe.wire_reading import read_program as read_message
from opwright.disk import (
    StrPath,
    digest_of,
    open_folder,
    open_regular,
    path_of,
    read_chunks,
    read_small,
)
from opwright.errors import FileMissingError, FormatError
from opwright.messages.arguments import suggest_arguments
from opwright.program import Program
from opwright.program.deserialize import read_blocks
from opwright.program.files.generations import (
    GENERATIONS,
    Saver,
    find_newest,
    link_text,
    list_numbers,
    name_of,
    publish,
    read_link,
)
from opwright.program.files.manifest import (
    MANIFEST,
    PARAMS,
    PROGRAM,
    Arrays,
    Manifest,
    ParamsMark,
    check_belongs,
    list_files,
    read_manifest,
    read_mark,
    read_params,
    write_generation,
)
from opwright.program.files.safetensors_file import read_array, read_header
from opwright.program.program import persistable_variables
from opwright.records import NamedTuple

if TYPE_CHECKING:
    from pathlib import Path


_MAX_TRIES: Final = 100
_GONE: Final = frozenset({errno.ENOENT, errno.ESTALE})

Read = TypeVar("Read")

OpenFile: TypeAlias = "tuple[StrPath, int]"
"""The handle of an open file, and the path for messages."""


class SavedFiles(NamedTuple):
    """The files of one saved state; the caller's `ExitStack` closes them.

    Files of a generation are opened together, through its folder, so they are consistent even if a
    saver removes them meanwhile. `stays` means that nothing writes to the files, since `save` only
    adds and removes generations. A standalone pair does not have `notes`.
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
    """Return the bytes of the program; FormatError if they do not match the manifest."""
    program = read_small(*file, MAX_PROGRAM_BYTES)
    digest = manifest.mark.program
    if len(program) != manifest.program_bytes or digest_of(program) != digest:
        raise FormatError(
            f"{file[0]}: truncated or damaged, got bytes that differ from its {MANIFEST}"
        )
    return program


def _check_params(file: OpenFile, manifest: Manifest, program: bytes) -> OpenFile:
    """Return the parameters; FormatError if they do not match the manifest."""
    path, handle = file
    size_bytes = os.fstat(handle).st_size
    if size_bytes != manifest.params_bytes or read_mark(path, handle) != manifest.mark:
        raise FormatError(
            f"{path}: truncated or damaged, got {size_bytes} bytes that do not match "
            f"its {MANIFEST}, which lists {manifest.params_bytes}"
        )
    return file


def read_saved(folder: StrPath, read: Callable[[SavedFiles], Read]) -> Read:
    """Return the result of `read` for the newest generation, or for a standalone pair.

    If `read` fails and another process has saved meanwhile, the new generation is read instead.
    Raises FileMissingError if the folder does not contain a saved program.
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


@contextmanager
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
    """Return the error for a missing file; the error lists the content of the folder."""
    name = os.path.basename(error.filename or PROGRAM)
    if newest is not None:
        generation = os.path.join(folder, GENERATIONS, name_of(newest))
        return FormatError(
            f"{generation}: must contain {MANIFEST}, {PROGRAM} and {PARAMS}, but lacks "
            f"{name}; remove the folder to load the previous generation"
        )
    if name == PARAMS:
        return FileMissingError(
            f"{os.path.join(folder, name)}: must be next to the program that it was saved with, "
            "got no such file; save both again"
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
        error.add_note(f"the previous generation: opwright.load({os.fspath(path)!r})")


# -- the two files at the top of a folder ----------------------------------------------------------


def read_program(path: StrPath, *, follow: bool = False) -> bytes:
    """Return the bytes of a program file; see `open_regular`."""
    with open_regular(path, follow=follow) as handle:
        return read_small(path, handle, MAX_PROGRAM_BYTES)


def open_params(stack: ExitStack, folder: StrPath, program: bytes) -> OpenFile:
    """Open the parameters of a standalone pair; FormatError unless they belong to the program."""
    path = os.path.join(folder, PARAMS)
    handle = stack.enter_context(open_regular(path, follow=True))
    check_belongs(path, read_mark(path, handle), program)
    return path, handle


def check_top_level(folder: StrPath) -> None:
    """Raise FormatError if a top-level file does not belong to a generation of the folder.

    The author of the file expects `load` to read it, but `load` reads the newest generation. A copy
    of a file in a generation is accepted, since tools that copy folders turn links into files.
    """
    for name in _find_foreign(folder):
        raise FormatError(
            f"{os.path.join(folder, name)}: must be a link to {link_text(name)}, as made by "
            f"opwright.save, got a file from outside of {GENERATIONS}; remove it to load the "
            f"newest of the {GENERATIONS}, or move both files to a new folder to load them"
        )


def _find_foreign(folder: StrPath) -> list[str]:
    names = [name for name in (PROGRAM, PARAMS) if _is_foreign(folder, name)]
    # Check twice, because a saver may have set the links and removed a generation meanwhile.
    return [name for name in names if _is_foreign(folder, name)]


def _is_foreign(folder: StrPath, name: str) -> bool:
    path = os.path.join(folder, name)
    if not os.path.lexists(path) or read_link(path) == link_text(name):
        return False
    try:
        mark = _mark_of(path)
    except (FileNotFoundError, FormatError):
        return True
    return all(mark != _mark_in(manifest, name) for manifest in _manifests(folder))


def _mark_of(path: StrPath) -> tuple[int, ParamsMark]:
    with open_regular(path, follow=True) as handle:
        size_bytes = os.fstat(handle).st_size
        if os.path.basename(path) == PARAMS:
            return size_bytes, read_mark(path, handle)
    return size_bytes, ParamsMark(digest_of(read_program(path, follow=True)), "")


def _mark_in(manifest: Manifest, name: str) -> tuple[int, ParamsMark]:
    if name == PARAMS:
        return manifest.params_bytes, manifest.mark
    return manifest.program_bytes, manifest.mark._replace(checksum="")


def _manifests(folder: StrPath) -> Iterator[Manifest]:
    for number in list_numbers(folder):
        path = os.path.join(folder, GENERATIONS, name_of(number))
        # A missing or damaged generation does not have a loadable file.
        with suppress(OSError, FormatError), open_folder(path) as handle:
            yield read_manifest(os.path.join(path, MANIFEST), handle)


def adopt_pair(folder: Path, saver: Saver) -> None:
    """Convert a standalone pair into a generation; it can be loaded at any time meanwhile.

    Does nothing if the pair is incomplete or another saver has converted it.
    """
    number = (find_newest(folder) or 0) + 1
    if number > 1 and not _find_foreign(folder):
        return
    with ExitStack() as stack:
        try:
            program = read_program(folder / PROGRAM, follow=True)
            path, handle = open_params(stack, folder, program)
        except (FileNotFoundError, FormatError):
            return
        manifest = Manifest(len(program), os.fstat(handle).st_size, read_mark(path, handle), {})

        def fill(new: Path) -> None:
            chunks = read_chunks(path, handle, 0, manifest.params_bytes)
            write_generation(new, list_files(program, chunks, manifest))

        publish(folder, saver, fill, number)


class SavedProgram(NamedTuple):
    """A program with the names of its feeds and saved results, and its notes."""

    program: Program
    feeds: tuple[str, ...]
    fetches: tuple[str, ...]
    notes: Mapping[str, Any]


def read_whole(path: str | os.PathLike[str], *, mapped: bool) -> tuple[SavedProgram, Arrays]:
    """Return a saved program and its arrays; with `mapped` the arrays may be memory-mapped."""
    saved, arrays = read_saved(path_of("load", path), lambda files: _read_whole(files, mapped))
    for variable in persistable_variables(saved.program):
        array = arrays[variable.name]
        if variable.shape != array.shape:
            variable.shape = array.shape  # in which sizes may be dynamic
    return saved, arrays


def _read_whole(files: SavedFiles, mapped: bool) -> tuple[SavedProgram, Arrays]:
    data, saved = _read_parsed(files)
    variables = persistable_variables(saved.program)
    expected = {variable.name: (variable.shape, variable.dtype) for variable in variables}
    path, handle = files.open_params(data)
    return saved, read_params(path, handle, expected, mapped=mapped and files.stays)


def read_alone(path: str | os.PathLike[str]) -> SavedProgram:
    """Return a saved program without its parameters, for `opwright.load_program`."""
    given = path_of("load_program", path)
    if os.path.exists(given) and not os.path.isdir(given):
        return parse_saved(read_program(given, follow=True), {})
    return read_saved(given, _read_parsed)[1]


def _read_parsed(files: SavedFiles) -> tuple[bytes, SavedProgram]:
    data = files.read_program()
    return data, parse_saved(data, files.notes)


def parse_saved(data: bytes, notes: Mapping[str, Any]) -> SavedProgram:
    """Parse the saved program in `data`; FormatError if it is not a program."""
    message = read_message(data)
    program = read_blocks(message, Program())
    feeds, fetches = tuple(message.get("feeds", ())), tuple(message.get("fetches", ()))
    for name in (*feeds, *fetches):
        if name not in program.global_block().vars:
            raise FormatError(f"program: a feed or fetch must be a variable, got {name!r}")
    return SavedProgram(program, feeds, fetches, notes)


@suggest_arguments
def load_tensors(path: str | os.PathLike[str]) -> dict[str, Array]:
    """Return the arrays of a safetensors file, such as a PyTorch ``state_dict``, by name.

    No code in the file is run, and memory use is limited by the size of the file.

    Parameters
    ----------
    path : str or PathLike
        The file.

    Raises
    ------
    FileMissingError
        If the file does not exist.
    FormatError
        If it is truncated, not a safetensors file, or has a dtype that opwright lacks, or bools
        with bytes other than 0 and 1.
    """
    file = path_of("load_tensors", path)
    try:
        with open_regular(file, follow=True) as handle:
            _, tensors = read_header(file, handle)
            return {
                name: read_array(file, handle, name, tensor) for name, tensor in tensors.items()
            }
    except FileNotFoundError:
        raise FileMissingError(
            f"{file}: must be a safetensors file, got no such file; check the path"
        ) from None
