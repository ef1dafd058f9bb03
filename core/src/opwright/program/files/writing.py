"""`save`: writes a program and its persistable variables to a folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from opwright._runtime import Scope
from opwright.describe.dtypes import dtype_from_numpy
from opwright.describe.meta import Meta, shapes_match
from opwright.disk import path_of
from opwright.errors import AttributeTypeError, AttributeValueError, ProgramError
from opwright.messages.arguments import suggest_arguments
from opwright.program import Program, Variable, default_scope
from opwright.program.deserialize import program_from_proto
from opwright.program.files.generations import point_to_newest, publish, remove_old, saving_to
from opwright.program.files.manifest import (
    Arrays,
    Manifest,
    check_notes,
    encode_params,
    list_files,
    mark_of,
    write_generation,
)
from opwright.program.files.opening import adopt_pair
from opwright.program.program import feed_names, persistable_variables
from opwright.program.variable import list_names
from opwright.vocabulary import STEP


@suggest_arguments
def save(
    path: str | os.PathLike[str],
    program: Program,
    scope: Scope | None = None,
    fetch: Iterable[Variable | str] | Variable | str | None = None,
    *,
    keep: int = 2,
    notes: Mapping[str, Any] | None = None,
) -> None:
    """Write a program, and its persistable variables in a scope, to a folder.

    Each call adds a generation, a folder with ``program.pb`` and ``params.safetensors``, and
    removes the oldest generations. Top-level files of these names are links to the newest
    generation. If the disk is full, or an interrupt or crash occurs at any moment, earlier saves
    stay intact. Several processes, even on several machines, may save to one folder. Each process
    adds its own generation, and the last generation is loaded.

    Parameters
    ----------
    path : str or PathLike
        The folder; it is created if it does not exist.
    program : Program
        `Program.prune` removes operators that only training needs.
    scope : Scope, optional
        Contains the persistable variables; by default the default scope.
    fetch : list of Variable or str, optional
        The results, in order, that a loaded program returns.
    keep : int, at least 1
        The number of generations that the folder keeps, including the new generation.
    notes : mapping, optional
        A few values that JSON can represent, which are saved with the generation; `load` returns
        them as the attribute ``notes`` of its result.

    Raises
    ------
    AttributeTypeError
        If an argument has the wrong type; the folder is the first argument.
    AttributeValueError
        If `keep` is not a positive int, or `notes` change in a round trip through JSON.
    ProgramError
        If the scope lacks a persistable variable, or its shape differs.
    FormatError
        If `load` would refuse the result, because of a parameter named ``__metadata__``, a name
        with invalid Unicode, bools with bytes other than 0 and 1, or a size limit. Nothing is
        written.
    VariableNotFoundError
        If `fetch` has a name that is not a variable of the program.
    FileTakenError
        If a file that `save` did not write has the name of one of the links in the folder.
    OSError
        If the files cannot be written; earlier saves can still be loaded.

    Warns
    -----
    RuntimeWarning
        If the program is saved, but an older generation cannot be removed.
    """
    from pathlib import Path  # imported here, since it takes 4 ms and `load` does not use it

    from opwright.program.serialize import program_to_bytes  # imports protobuf

    folder = Path(path_of("save", path))
    _check_types(program, scope)
    _check_keep(keep)
    kept_notes = check_notes(notes)
    fetches = list_names(() if fetch is None else fetch, "save: fetch")
    for name in fetches:
        program.global_block().get_var(name, "save: fetch")
    arrays = _collect(program, default_scope() if scope is None else scope)
    data = program_to_bytes(program, feed_names(program), fetches)
    program_from_proto(data, Program())  # raises if `load` would
    files = list_saved(arrays, data, kept_notes)
    with saving_to(folder) as saver:
        adopt_pair(folder, saver)
        publish(folder, saver, lambda new: write_generation(new, files))
        point_to_newest(folder, saver)
        remove_old(folder, saver, keep)


def list_saved(
    arrays: Arrays, data: bytes, notes: dict[str, Any]
) -> dict[str, Iterable[bytes | memoryview]]:
    """Return the contents of the files of a generation by name."""
    mark = mark_of(arrays, data)
    params = encode_params(arrays, mark)
    return list_files(data, params, Manifest(len(data), sum(map(len, params)), mark, notes))


def _check_types(program: object, scope: object) -> None:
    if not isinstance(program, Program):
        of_model = ""
        if isinstance(getattr(program, "program", None), Program):
            of_model = "; of a model: model.save(folder), or model.export(folder, [out])"
        raise AttributeTypeError(
            f"save: program must be a Program, got {program!r}"
            f"{of_model or '; write save(folder, program, scope)'}"
        )
    if scope is not None and not hasattr(scope, "find_var"):
        raise AttributeTypeError(
            f"save: scope must be a Scope, got {scope!r}; write save(folder, program, scope)"
        )


def _check_keep(keep: object) -> None:
    if isinstance(keep, bool) or not isinstance(keep, int) or keep < 1:
        raise AttributeValueError(
            f"save: keep must be an int, at least 1, got {keep!r}; it counts the new generation"
        )


def _collect(program: Program, scope: Scope) -> Arrays:
    arrays: Arrays = {}
    for variable in persistable_variables(program):
        name = variable.name
        stored = scope.find_var(name)
        if stored is not None and stored.is_set:
            arrays[name] = stored.numpy()
        elif name == STEP:
            arrays[name] = np.zeros(1, np.int64)  # nothing has run yet
        else:
            raise ProgramError(
                f"save: the scope must hold every persistable variable, got none for {name!r}; "
                "run the startup program in this scope first, or initialize_parameters() of a Model"
            )
        meta = Meta(arrays[name].shape, dtype_from_numpy(arrays[name].dtype))
        shape = meta.shape if variable.shape is None else variable.shape
        if meta.dtype != variable.dtype or not shapes_match(meta.shape, shape):
            raise ProgramError(f"save: the scope must match {variable!r}, got {meta}")
    return arrays
