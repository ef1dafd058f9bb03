"""`load`: returns a saved program with its parameters, which can be called from many threads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opwright._runtime import Scope
from opwright.describe.arguments import suggest_arguments
from opwright.errors import AttributeTypeError
from opwright.program.files import read_alone, read_whole
from opwright.registry import HOST_DEVICE
from opwright.run.loaded import LoadedProgram

if TYPE_CHECKING:
    from opwright.lowering.lock import Lock


@suggest_arguments
def load(
    path: str | os.PathLike[str],
    scope: Scope | None = None,
    *,
    mmap: bool = True,
    trainable: bool = True,
    device: str = HOST_DEVICE,
    lock: Lock | str | os.PathLike[str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> LoadedProgram:
    """Return the program of a folder that `save` has written, with its parameters.

    No code in the files is run. Everything is checked, and its memory reserved, before a given
    scope changes. While other processes save to the folder, the result still comes from one call of
    `save`.

    The result can be called: ``load(folder)(images)`` computes the results of the program.

    Parameters
    ----------
    path : str or PathLike
        The folder; or one of those in its ``generations``; or any with ``program.pb`` and
        ``params.safetensors`` of one call of `save` in it.
    scope : Scope, optional
        Where the persistable variables are set, and are when the result is called. By default the
        result has a scope of its own: another program with the same names may be loaded.
    mmap : bool
        Whether parameters may lie in a map of their file: they are read from the disk when they are
        used first, and processes share them. That is done for the scope of the result, and for
        files of 1 MiB and more in ``generations``, which `save` never writes into, on a local
        disk. The file may then be replaced, renamed and removed, but not be written into or cut
        off: that changes the parameters, or ends the process. What is written into a parameter
        stays in memory. False reads everything at once.
    trainable : bool
        False freezes the parameters: none of them gets a gradient.
    device, lock, options
        As of ``Network.compile``, for calls of the result.

    Returns
    -------
    LoadedProgram
        The program with what it is fed and its results; it is called, trained, saved.

    Raises
    ------
    FileMissingError
        If the folder has no saved program.
    FormatError
        If a file is truncated, foreign, damaged, too large or of a newer format; if the parameters
        are not those of the program, with the names that are missing, extra or of a wrong shape.
    OperatorNotFoundError
        If an operator is unknown; the message names the package to install.
    DeviceNotFoundError, LockError, SettingError
        As ``Network.compile`` raises them.
    """
    for name, value in (("mmap", mmap), ("trainable", trainable)):
        if not isinstance(value, bool):
            raise AttributeTypeError(f"load: {name} must be True or False, got {value!r}")
    saved, arrays = read_whole(path, mapped=mmap and scope is None)
    if scope is None:
        scope = Scope()
        for name, array in arrays.items():
            scope.var(name).borrow(array)
    else:
        scope.set_all(arrays)
    for parameter in () if trainable else saved.program.parameters():
        parameter.trainable = False
    return LoadedProgram(
        saved.program,
        scope,
        saved.fetches,
        saved.feeds,
        notes=saved.notes,
        device=device,
        lock=lock,
        options=options,
    )


@suggest_arguments
def load_program(path: str | os.PathLike[str]) -> LoadedProgram:
    """Return a saved program without its parameters: its result cannot be called.

    Parameters
    ----------
    path : str or PathLike
        The folder that `save` has written, or the ``program.pb`` in it.

    Raises
    ------
    FileMissingError, FormatError, OperatorNotFoundError
        As `load` does.
    """
    saved = read_alone(path)
    return LoadedProgram(saved.program, None, saved.fetches, saved.feeds, notes=saved.notes)
