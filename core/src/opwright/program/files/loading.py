"""A saved program is read, and what it keeps is set in a scope; `opwright.load` makes it run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from opwright.describe.arguments import suggest_arguments
from opwright.errors import FormatError, ProgramError
from opwright.program import Program, default_scope
from opwright.program.files.opening import SavedPair, folder_of, read_saved
from opwright.program.files.pair import read_program
from opwright.program.files.params_file import Arrays, read_params
from opwright.program.files.writing import kept_variables

if TYPE_CHECKING:
    from opwright._runtime import Scope

_NO_NOTES: Final[Mapping[str, Any]] = MappingProxyType({})


class _Fields(NamedTuple):
    program: Program
    feeds: tuple[str, ...]
    fetches: tuple[str, ...]


class LoadedProgram(_Fields):
    """A program that was saved: ``program, feeds, fetches = load(folder)``.

    It can be called, from any number of threads: ``loaded(img=images)`` returns a list with an
    array for each of `fetches`, as prediction computes them: without updates, and with ``training``
    false, see ``Program.clone(for_inference=True)``. Only what they depend on is fed.

    Attributes
    ----------
    program : Program
        What was saved.
    feeds : tuple of str
        The variables that must be fed, in the order in which they were declared.
    fetches : tuple of str
        The results that were named when it was saved.
    notes : mapping
        The argument `notes` of `save`.
    compute : callable or None
        What a call runs; None without parameters.
    """

    notes: Mapping[str, Any] = _NO_NOTES
    compute: Callable[[dict[str, Any]], list[Any]] | None = None

    def __call__(self, /, **feeds: Any) -> list[Any]:
        """Return the results for arrays by the names of their variables.

        Raises
        ------
        FeedError
            For a missing, unknown or misshapen feed.
        ProgramError
            For a program without results, and for one of `load_program`, without parameters.
        """
        if self.compute is None:
            raise ProgramError(
                "LoadedProgram: it must have its parameters to be called, got the program alone; "
                "load it by opwright.load(folder)"
            )
        return self.compute(feeds)


def load(path: str | os.PathLike[str], scope: Scope | None = None) -> LoadedProgram:
    """Return a saved program and set its variables in a scope: what `opwright.load` begins with."""
    loaded, arrays = read_saved(folder_of("load", path), _read_whole)
    target = default_scope() if scope is None else scope
    for variable in kept_variables(loaded.program):
        array = arrays[variable.name]
        if variable.shape != array.shape:
            variable.shape = array.shape  # with the sizes that the program leaves open
    target.set_all(arrays)
    return loaded


def _read_whole(files: SavedPair) -> tuple[LoadedProgram, Arrays]:
    data, loaded = _read_program(files)
    kept = kept_variables(loaded.program)
    expected = {variable.name: (variable.shape, variable.dtype) for variable in kept}
    with files.open_params(data) as (path, handle):
        return loaded, read_params(path, handle, data, expected)


@suggest_arguments
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
    if given.exists() and not given.is_dir():
        return _parse(read_program(given, follow=True))
    return read_saved(given, _read_program)[1]


def _read_program(files: SavedPair) -> tuple[bytes, LoadedProgram]:
    """The bytes of a program's file, and what they say."""
    data = files.read_program()
    loaded = _parse(data)
    loaded.notes = files.notes
    return data, loaded


def _parse(data: bytes) -> LoadedProgram:
    from opwright.describe import wire as messages  # and protobuf with it

    message = messages.program_from_bytes(data)
    program = Program.from_proto(message)
    _check_names(program, (*message.feeds, *message.fetches))
    return LoadedProgram(program, tuple(message.feeds), tuple(message.fetches))


def _check_names(program: Program, names: tuple[str, ...]) -> None:
    block = program.global_block()
    for name in names:
        if name not in block.vars:
            raise FormatError(f"program: a feed or fetch must be a variable, got {name!r}")
