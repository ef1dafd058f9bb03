"""Reads saved programs and their parameters; `opwright.load` makes them callable."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from opwright.describe import wire_reading
from opwright.describe.arguments import suggest_arguments
from opwright.describe.dtypes import Array
from opwright.errors import FileMissingError, FormatError
from opwright.program import Program
from opwright.program.deserialize import read_blocks
from opwright.program.files.disk import open_regular
from opwright.program.files.opening import SavedFiles, folder_of, read_program, read_saved
from opwright.program.files.params_file import Arrays, read_params
from opwright.program.files.safetensors_file import read_array, read_header
from opwright.program.files.writing import persistable_variables
from opwright.records import NamedTuple


class SavedProgram(NamedTuple):
    """A program, the names that it is fed and that it was saved with as results, and its notes."""

    program: Program
    feeds: tuple[str, ...]
    fetches: tuple[str, ...]
    notes: Mapping[str, Any]


def read_whole(path: str | os.PathLike[str], *, mapped: bool) -> tuple[SavedProgram, Arrays]:
    """Return a saved program and its arrays; with `mapped` they may lie in the file."""
    saved, arrays = read_saved(folder_of("load", path), lambda files: _read_whole(files, mapped))
    for variable in persistable_variables(saved.program):
        array = arrays[variable.name]
        if variable.shape != array.shape:
            variable.shape = array.shape  # with the sizes that are unknown in the program
    return saved, arrays


def _read_whole(files: SavedFiles, mapped: bool) -> tuple[SavedProgram, Arrays]:
    data, saved = _read_program(files)
    variables = persistable_variables(saved.program)
    expected = {variable.name: (variable.shape, variable.dtype) for variable in variables}
    path, handle = files.open_params(data)
    return saved, read_params(path, handle, expected, mapped=mapped and files.stays)


def read_alone(path: str | os.PathLike[str]) -> SavedProgram:
    """Return a saved program without its parameters, for `opwright.load_program`."""
    given = folder_of("load_program", path)
    if os.path.exists(given) and not os.path.isdir(given):
        return _parse(read_program(given, follow=True), {})
    return read_saved(given, _read_program)[1]


def _read_program(files: SavedFiles) -> tuple[bytes, SavedProgram]:
    data = files.read_program()
    return data, _parse(data, files.notes)


def _parse(data: bytes, notes: Mapping[str, Any]) -> SavedProgram:
    message = wire_reading.read_program(data)
    program = read_blocks(message, Program())
    feeds, fetches = tuple(message.get("feeds", ())), tuple(message.get("fetches", ()))
    for name in (*feeds, *fetches):
        if name not in program.global_block().vars:
            raise FormatError(f"program: a feed or fetch must be a variable, got {name!r}")
    return SavedProgram(program, feeds, fetches, notes)


@suggest_arguments
def load_tensors(path: str | os.PathLike[str]) -> dict[str, Array]:
    """Return the arrays of a safetensors file, such as a ``state_dict`` of PyTorch, by name.

    No code in the file is run, and no more memory is taken than it has bytes.

    Parameters
    ----------
    path : str or PathLike
        The file.

    Raises
    ------
    FileMissingError
        If there is no such file.
    FormatError
        If it is truncated, or no safetensors file, or has a dtype that opwright lacks, or bools
        with other bytes than 0 and 1.
    """
    file = folder_of("load_tensors", path)
    try:
        with open_regular(file, follow=True) as handle:
            tensors = read_header(file, handle).tensors
            return {
                name: read_array(file, handle, name, tensor) for name, tensor in tensors.items()
            }
    except FileNotFoundError:
        raise FileMissingError(
            f"{file}: must be a safetensors file, got no such file; check the path"
        ) from None
