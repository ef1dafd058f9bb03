"""The two files at the top of a folder: links to the newest generation, or a saved pair by itself.

A pair by itself was copied from a generation. The first `save` to its folder turns it into a
generation, before it adds its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, TypeAlias

from opwright.describe.wire_reading import MAX_PROGRAM_BYTES
from opwright.errors import FormatError
from opwright.program.files.disk import (
    StrPath,
    open_folder,
    open_regular,
    read_chunks,
    read_small,
    write_file,
)
from opwright.program.files.generations import (
    GENERATIONS,
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
    Manifest,
    read_manifest,
    write_manifest,
)
from opwright.program.files.params_file import ParamsMark, check_belongs, digest_of, read_mark
from opwright.program.files.savers import Saver

if TYPE_CHECKING:
    from pathlib import Path

OpenFile: TypeAlias = "tuple[StrPath, int]"
"""A path, for messages, and the handle through which the file is read."""


def read_program(path: StrPath, *, follow: bool = False) -> bytes:
    """Return the bytes of a program's file; see `open_regular`."""
    with open_regular(path, follow=follow) as handle:
        return read_open_program(path, handle)


def read_open_program(path: StrPath, handle: int) -> bytes:
    """Return the bytes of an open program file; FormatError if they are too many."""
    return read_small(path, handle, MAX_PROGRAM_BYTES)


def open_params(stack: ExitStack, folder: StrPath, program: bytes) -> OpenFile:
    """Open the parameters of a pair by itself; FormatError unless they belong to the program."""
    path = os.path.join(folder, PARAMS)
    handle = stack.enter_context(open_regular(path, follow=True))
    check_belongs(path, read_mark(path, handle), program)
    return path, handle


def check_top_level(folder: StrPath) -> None:
    """Raise FormatError if a file at the top of a folder with generations belongs to none of them.

    Whoever put it there expects `load` to read it, but `load` reads the newest generation. A copy
    of a generation's file is accepted: tools that copy folders turn links into files.
    """
    for name in _find_foreign(folder):
        raise FormatError(
            f"{os.path.join(folder, name)}: must be a link to {link_text(name)}, as opwright.save "
            f"makes it, got another file, of none of the {GENERATIONS}; remove it to load the "
            "newest of them, or move both files to a folder of their own to load these"
        )


def _find_foreign(folder: StrPath) -> list[str]:
    names = [name for name in (PROGRAM, PARAMS) if _is_foreign(folder, name)]
    # Look twice: a saver may have set the links, and removed a generation, meanwhile.
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
        # A generation that is gone or damaged has no file that could be loaded.
        with suppress(OSError, FormatError), open_folder(path) as handle:
            yield read_manifest(os.path.join(path, MANIFEST), handle)


def adopt_pair(folder: Path, saver: Saver) -> None:
    """Turn a pair by itself into a generation, so that it can be loaded at any moment of a save.

    Do nothing if the pair is not complete, or another saver has done it.
    """
    number = (find_newest(folder) or 0) + 1
    if number > 1 and not _find_foreign(folder):
        return
    with ExitStack() as stack:
        try:
            program = read_program(folder / PROGRAM, follow=True)
            source = open_params(stack, folder, program)
        except (FileNotFoundError, FormatError):
            return
        publish(folder, saver, lambda new: _copy_pair(new, program, source), number)


def _copy_pair(new: Path, program: bytes, source: OpenFile) -> None:
    path, handle = source
    size_bytes = os.fstat(handle).st_size
    write_file(new / PROGRAM, [program])
    write_file(new / PARAMS, read_chunks(path, handle, 0, size_bytes))
    write_manifest(new, Manifest(len(program), size_bytes, read_mark(path, handle), {}))
