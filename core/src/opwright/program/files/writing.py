"""`save`: a program and what it keeps in a scope, to a folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opwright.describe.arguments import suggest_arguments
from opwright.describe.dtypes import dtype_from_numpy
from opwright.describe.meta import Meta, shapes_match
from opwright.describe.vocabulary import STEP
from opwright.errors import AttributeTypeError, AttributeValueError, ProgramError
from opwright.program import Program, Variable, default_scope
from opwright.program.files.disk import write_file
from opwright.program.files.generations import (
    point_to_newest,
    publish,
    remove_old,
    saving_to,
)
from opwright.program.files.manifest import (
    MANIFEST,
    PARAMS,
    PROGRAM,
    Manifest,
    check_notes,
    encode_manifest,
)
from opwright.program.files.opening import folder_of
from opwright.program.files.pair import adopt_pair, remove_interrupted
from opwright.program.files.params_file import Arrays, encode_params, mark_of

if TYPE_CHECKING:
    from opwright._runtime import Scope


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
    """Write a program, and the persistable variables that it keeps in a scope, to a folder.

    Each call adds a generation, a folder with ``program.pb`` and ``params.safetensors``, and
    removes the oldest. The files of these names at the top of the folder are links to the newest. A
    full disk, an interrupt or a crash at any moment leaves what was saved before, whole. Several
    processes, also of several machines, may save to one folder: each adds a generation of its own,
    and the last one is loaded.

    Parameters
    ----------
    path : str or PathLike
        The folder; it is made where there is none.
    program : Program
        Written as it is; `Program.prune` takes from it what only training needs.
    scope : Scope, optional
        Holds the persistable variables; the default scope by default.
    fetch : list of Variable or str, optional
        The results, in order, for those who load the program.
    keep : int, at least 1
        How many generations are left in the folder, the new one among them.
    notes : mapping, optional
        Small things to keep with the generation, which JSON can write; `load` returns them as the
        attribute ``notes`` of its result.

    Raises
    ------
    AttributeTypeError
        Where an argument has another type; the folder comes first.
    AttributeValueError
        Where `keep` is no positive int, or JSON does not give back `notes`.
    ProgramError
        Where the scope lacks a persistable variable, or holds one of another shape.
    VariableNotFoundError
        Where `fetch` names no variable of the program.
    FileTakenError
        Where the folder holds something else by the name of a link.
    OSError
        Where the files cannot be written; what was saved before is loaded as before.

    Warns
    -----
    RuntimeWarning
        Where it is saved, but an older generation cannot be removed.
    """
    from opwright.program.serialize import program_to_bytes  # and protobuf with it

    folder = folder_of("save", path)
    _check_types(program, scope)
    _check_keep(keep)
    kept_notes = check_notes(notes)
    listed = [fetch] if isinstance(fetch, Variable | str) else list(fetch or ())
    fetches = [item.name if isinstance(item, Variable) else item for item in listed]
    for name in fetches:
        program.global_block().get_var(name, "save: fetch")
    arrays = _collect(program, default_scope() if scope is None else scope)
    data = program_to_bytes(program, feed_names(program), fetches)
    with saving_to(folder) as saver:
        adopt_pair(folder, saver)
        publish(folder, saver, lambda new: _write_generation(new, data, arrays, kept_notes))
        point_to_newest(folder, saver)
        remove_interrupted(folder)
        remove_old(folder, saver, keep)


def _write_generation(new: Path, program: bytes, arrays: Arrays, notes: dict[str, Any]) -> None:
    mark = mark_of(arrays, program)
    write_file(new / PROGRAM, [program])
    write_file(new / PARAMS, encode_params(arrays, mark))
    manifest = Manifest(len(program), (new / PARAMS).stat().st_size, mark, notes)
    write_file(new / MANIFEST, [encode_manifest(manifest)])


def _check_types(program: object, scope: object) -> None:
    if not isinstance(program, Program):
        raise AttributeTypeError(
            f"save: program must be a Program, got {program!r}; write save(folder, program, scope)"
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


def kept_variables(program: Program) -> list[Variable]:
    """Return the persistable variables of a program."""
    return [var for block in program.blocks for var in block.vars.values() if var.persistable]


def feed_names(program: Program) -> list[str]:
    """Return what must be fed: read before it is written, and not persistable."""
    block = program.global_block()
    written: set[str] = set()
    read: set[str] = set()
    for op in block.ops:
        read.update(name for name in op.input_names() if name not in written)
        written.update(op.output_names())
    return [name for name, var in block.vars.items() if name in read and not var.persistable]


def _collect(program: Program, scope: Scope) -> Arrays:
    arrays: Arrays = {}
    for variable in kept_variables(program):
        name = variable.name
        held = scope.find_var(name)
        if held is not None and held.is_set:
            arrays[name] = held.numpy()
        elif name == STEP:
            arrays[name] = np.zeros(1, np.int64)  # nothing has run yet
        else:
            raise ProgramError(
                f"save: the scope must hold every persistable variable, got none for {name!r}; "
                "run the startup program in this scope first"
            )
        meta = Meta(arrays[name].shape, dtype_from_numpy(arrays[name].dtype))
        shape = meta.shape if variable.shape is None else variable.shape
        if meta.dtype != variable.dtype or not shapes_match(meta.shape, shape):
            raise ProgramError(f"save: the scope must hold {variable!r} as it is, got {meta}")
    return arrays
