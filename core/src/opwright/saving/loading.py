"""`load`: a saved program, with what it keeps set in a scope."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from opwright.errors import FileMissingError, FormatError
from opwright.program import Program, default_scope
from opwright.saving.pair import PARAMS, PROGRAM, find_params, folder_of
from opwright.saving.params_file import read_params
from opwright.saving.writing import kept_variables

if TYPE_CHECKING:
    from opwright._runtime import Scope


class LoadedProgram(NamedTuple):
    """A program that was saved.

    Attributes
    ----------
    program : Program
        What was saved.
    feeds : tuple of str
        The variables that must be fed, in the order in which they were declared.
    fetches : tuple of str
        The results that were named when it was saved.
    """

    program: Program
    feeds: tuple[str, ...]
    fetches: tuple[str, ...]


def load(path: str | os.PathLike[str], scope: Scope | None = None) -> LoadedProgram:
    """Return the program of a folder that `save` has written, and set its variables in a scope.

    Nothing in the files is run. Everything is checked before the scope is changed.

    Parameters
    ----------
    path : str or PathLike
        The folder.
    scope : Scope, optional
        Where the persistable variables are set; the default scope by default.

    Returns
    -------
    LoadedProgram
        The program, what it is fed, and its results.

    Raises
    ------
    FileMissingError
        Where the folder holds no saved program.
    FormatError
        Where a file is truncated, foreign, damaged, too large or of a newer format; where the
        parameters are not those of the program, with the names that are missing, extra or
        misshapen.
    OperatorNotFoundError
        Where an operator is unknown; it names the package to install.
    """
    folder = folder_of("load", path)
    data, loaded = _load_file(folder / PROGRAM)
    kept = kept_variables(loaded.program)
    expected = {variable.name: (variable.shape, variable.dtype) for variable in kept}
    arrays = read_params(find_params(folder, data), expected)
    target = default_scope() if scope is None else scope
    for variable in kept:
        array = arrays[variable.name]
        if variable.shape != array.shape:
            variable.shape = array.shape  # of a dimension that nobody had told
        target.var(variable.name).set(array)
    return loaded


def load_program(path: str | os.PathLike[str]) -> LoadedProgram:
    """Return a saved program without its parameters; no scope is touched.

    Parameters
    ----------
    path : str or PathLike
        The folder that `save` has written, or the ``program.pb`` in it.

    Raises
    ------
    FileMissingError, FormatError, OperatorNotFoundError
        As `load` does.
    """
    given = folder_of("load_program", path)
    return _load_file(given if given.is_file() else given / PROGRAM)[1]


def _load_file(path: Path) -> tuple[bytes, LoadedProgram]:
    """The bytes of a program's file, and what they say."""
    from opwright import messages  # and protobuf with it
    from opwright.program.serialize import program_from_proto

    data = _read_program(path, messages.MAX_PROGRAM_BYTES)
    message = messages.program_from_bytes(data)
    program = program_from_proto(message)
    _check_names(program, (*message.feeds, *message.fetches))
    return data, LoadedProgram(program, tuple(message.feeds), tuple(message.fetches))


def _read_program(path: Path, max_bytes: int) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise _missing(path) from None
    if len(data) > max_bytes:
        raise FormatError(f"{path}: must have at most {max_bytes} bytes, got more")
    return data


def _missing(path: Path) -> FileMissingError:
    """The error for a folder without a program: it says how much of the path there is."""
    folder = path.parent
    if folder.is_dir():
        got = f"a folder without {path.name}"
    else:
        got = "a file" if folder.exists() else "no such folder"
    begin = "" if folder.is_absolute() else f", which begins at {Path.cwd()}"
    return FileMissingError(
        f"{folder}: must be a folder that opwright.save has written, with {PROGRAM} and {PARAMS} "
        f"in it, got {got}; check the path{begin}"
    )


def _check_names(program: Program, names: tuple[str, ...]) -> None:
    block = program.global_block()
    for name in names:
        if name not in block.vars:
            raise FormatError(f"program: a feed or fetch must be a variable, got {name!r}")
