"""Saves and restores the state of training: variables, random numbers, position and more."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import opwright as ow
from opwright.errors import AttributeValueError
from opwright_nn import arguments, checks
from opwright_nn.checkpoint.comparing import Array, check_same, fitting_values
from opwright_nn.checkpoint.reading import Saved, describe_saved, read_newest
from opwright_nn.checkpoint.state import pack_state, unpack_state
from opwright_nn.parallel import check_alike, own_values, save_once, whole_program


class Checkpoint(NamedTuple):
    """A checkpoint that matches a program and has not been applied yet.

    Attributes
    ----------
    saved : Saved
        The contents of the folder.
    values : dict
        The arrays of the persistable variables, by name; shards, if this process holds shards.
    state : dict
        The argument `state` of `save`.
    """

    saved: Saved
    values: dict[str, Array]
    state: dict[str, Any]


@arguments.suggest
def save(
    path: str | os.PathLike[str],
    program: ow.Program,
    scope: ow.Scope | None = None,
    fetch: Iterable[ow.Variable | str] = (),
    *,
    state: Mapping[str, Any] | None = None,
    notes: Mapping[str, Any] | None = None,
    keep: int = 3,
) -> None:
    """Write everything that later steps depend on so that `resume` continues bitwise identically.

    A checkpoint contains the persistable variables of the program (parameters, optimizer states,
    learning rate, ``@step`` of random numbers), its seed, and `state`. The files are written next
    to earlier checkpoints, synced to the disk, and renamed: a process that is killed at any moment
    leaves complete checkpoints. Files have checksums. All processes that train together call
    `save`, and the first process writes.

    Parameters
    ----------
    path : str or PathLike
        The folder, as `opwright.save` lays it out.
    program : Program
        The training step.
    scope : Scope, optional
        The scope of the persistable variables; by default the default scope.
    fetch : iterable of Variable or str
        The results, for programs that load it.
    state : mapping, optional
        Other data of the script, with JSON types: ``{"data": batches.position}``.
    notes : mapping, optional
        Additional notes for `opwright.save`.
    keep : int, at least 1
        The number of checkpoints that the folder keeps.
    """
    checks.check_instance("checkpoint.save", "state", state, Mapping)
    checks.check_instance("checkpoint.save", "notes", notes, Mapping)
    own_notes = pack_state(state or {})
    for name in own_notes.keys() & (notes or {}).keys():
        raise AttributeValueError(
            f"checkpoint.save: notes must not use the name of the state, got {name!r}; choose "
            "another name"
        )
    own_notes |= notes or {}
    fetches = list(fetch)

    def write(whole: ow.Program, state: ow.Scope | None) -> None:
        ow.save(path, whole, state, fetches, keep=keep, notes=own_notes)

    save_once("checkpoint.save", program, scope, write)


@arguments.suggest
def resume(
    path: str | os.PathLike[str], program: ow.Program, scope: ow.Scope | None = None
) -> dict[str, Any] | None:
    """Set the variables from the newest complete checkpoint, and return its `state`.

    All processes that train together call `resume`, and read the same folder. The number of
    processes may differ from the number of processes that saved.

    Parameters
    ----------
    path : str or PathLike
        The folder.
    program : Program
        A program with the operators and variables of the saved program. It gets the saved seed.
    scope : Scope, optional
        The scope that receives the variables; by default the default scope.

    Returns
    -------
    dict or None
        The argument `state` of `save`; None if nothing has been saved.

    Raises
    ------
    ProgramError
        The checkpoint belongs to a different program; the message names the variables that differ.
        Nothing is changed.
    FormatError
        All checkpoints of the folder are damaged.

    Warns
    -----
    RuntimeWarning
        The newest checkpoint is incomplete or damaged, and an older checkpoint is used.
    """
    found = read_matching("checkpoint.resume", path, program)
    if found is None:
        return None
    target = ow.default_scope() if scope is None else scope
    target.set_all(found.values)
    program.seed = found.saved.program.seed
    return found.state


def read_matching(who: str, path: str | os.PathLike[str], program: ow.Program) -> Checkpoint | None:
    """Return a folder's newest complete checkpoint; raise ProgramError if `program` differs."""
    saved = read_newest(who, path)
    check_alike(who, program, "checkpoint", lambda: describe_saved(saved))
    if saved is None:
        return None
    whole = whole_program(who, program)
    values = fitting_values(who, path, whole, saved)
    check_same(who, path, whole, saved, values)
    return Checkpoint(saved, own_values(who, program, values), unpack_state(saved.notes))
