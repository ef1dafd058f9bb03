"""Reads saved programs and their parameters; `opwright.load` also makes them callable."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from opwright.describe import wire_reading
from opwright.describe.arguments import suggest_arguments
from opwright.errors import FeedError, FileMissingError, FormatError, ProgramError
from opwright.program import Program, default_scope
from opwright.program.deserialize import read_blocks
from opwright.program.files.disk import open_regular
from opwright.program.files.opening import SavedPair, folder_of, read_saved
from opwright.program.files.pair import read_program
from opwright.program.files.params_file import Arrays, read_params
from opwright.program.files.safetensors_file import read_array, read_header
from opwright.program.files.writing import persistable_variables

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from opwright._runtime import Scope

_NO_NOTES: Final[Mapping[str, Any]] = MappingProxyType({})


class _Fields(NamedTuple):
    program: Program
    feeds: tuple[str, ...]
    fetches: tuple[str, ...]


class LoadedProgram(_Fields):
    """A saved program: ``program, feeds, fetches = load(folder)``.

    It can be called, from any number of threads: ``loaded(img=images)`` returns a list with an
    array for each of `fetches`. They are computed for prediction: without updates, and with
    ``training`` false, see ``Program.clone(for_inference=True)``. Only what they need is fed.

    Attributes
    ----------
    program : Program
    feeds : tuple of str
        The variables that must be fed, in the order in which they were declared.
    fetches : tuple of str
        The argument `fetch` of `save`.
    notes : mapping
        The argument `notes` of `save`.
    compute : callable or None
        Computes the results; None without parameters.
    """

    notes: Mapping[str, Any] = _NO_NOTES
    compute: Callable[[dict[str, Any]], list[Any]] | None = None

    def __call__(self, /, *args: Any, **feeds: Any) -> list[Any]:
        """Return the results for arrays, which are given by the names of their variables.

        Raises
        ------
        FeedError
            For a missing or unknown feed, or one of a wrong shape.
        ProgramError
            For a program without results, and for one of `load_program`, without parameters.
        """
        if self.compute is None:
            raise ProgramError(
                "LoadedProgram: it must have its parameters to be called, got the program alone; "
                "load it by opwright.load(folder)"
            )
        if args:
            raise FeedError(
                f"LoadedProgram: it takes its feeds by name, got {len(args)} without; write "
                f"loaded({', '.join(f'{name}={name}' for name in self.feeds[:1] or ('name',))})"
            )
        return self.compute(feeds)


def load(path: str | os.PathLike[str], scope: Scope | None = None) -> LoadedProgram:
    """Return a saved program and set its variables in a scope, for `opwright.load`."""
    loaded, arrays = read_saved(folder_of("load", path), _read_all)
    target = default_scope() if scope is None else scope
    for variable in persistable_variables(loaded.program):
        array = arrays[variable.name]
        if variable.shape != array.shape:
            variable.shape = array.shape  # with the sizes that are unknown in the program
    target.set_all(arrays)
    return loaded


def _read_all(files: SavedPair) -> tuple[LoadedProgram, Arrays]:
    data, loaded = _read_program(files)
    variables = persistable_variables(loaded.program)
    expected = {variable.name: (variable.shape, variable.dtype) for variable in variables}
    path, handle = files.open_params(data)
    return loaded, read_params(path, handle, expected)


@suggest_arguments
def load_program(path: str | os.PathLike[str]) -> LoadedProgram:
    """Return a saved program without its parameters; no scope changes.

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
    data = files.read_program()
    loaded = _parse(data)
    loaded.notes = files.notes
    return data, loaded


def _parse(data: bytes) -> LoadedProgram:
    message = wire_reading.read_program(data)
    program = read_blocks(message, Program())
    feeds, fetches = tuple(message.get("feeds", ())), tuple(message.get("fetches", ()))
    for name in (*feeds, *fetches):
        if name not in program.global_block().vars:
            raise FormatError(f"program: a feed or fetch must be a variable, got {name!r}")
    return LoadedProgram(program, feeds, fetches)


def load_tensors(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
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
        If it is truncated, or no safetensors file, or has a dtype that opwright lacks.
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
