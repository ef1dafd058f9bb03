"""Taking the parameters of a Model from a folder that it, or one like it, was saved to."""

from __future__ import annotations

import os
from collections.abc import Collection

import opwright as ow
from opwright.errors import ProgramError
from opwright.op import format_shape, shapes_match

from .deferred import Shape

_MAX_LISTED = 8


def load_parameters(
    path: str | os.PathLike[str],
    program: ow.Program,
    scope: ow.Scope,
    leave: Collection[str] = (),
) -> dict[str, Shape]:
    """Set the persistable variables of `program` in `scope`, all or, on an error, none.

    Parameters
    ----------
    path : str or path
        A folder that `opwright.save` wrote.
    program : Program
        Its parameters must be those of the folder, in name, shape and dtype. Of other persistable
        variables those are taken that both have.
    scope : Scope
        Where they are set.
    leave : collection of str
        Names of variables that keep what they have.

    Returns
    -------
    dict of str to shape
        What was set.

    Raises
    ------
    ProgramError
        Naming the parameters that are missing, extra or misshapen.
    FormatError, OSError
        As `opwright.load` does.
    """
    held = ow.Scope()
    saved = ow.load(path, held).program
    wanted = [var for var in program.global_block().vars.values() if var.persistable]
    wanted = [variable for variable in wanted if variable.name not in leave]
    values = {var.name: held.find_var(var.name) for var in wanted}
    problems = _compare_names(program, saved)
    for variable in wanted:
        value = values[variable.name]
        if value is not None:
            problems += _compare_metas(variable, value.shape or (), value.dtype or "")
    if problems:
        more = f" and {len(problems) - _MAX_LISTED} more" if len(problems) > _MAX_LISTED else ""
        raise ProgramError(
            f"Model.load_parameter: {os.fspath(path)} must hold the parameters of this model, got "
            f"{'; '.join(problems[:_MAX_LISTED])}{more}; build the same model as was saved"
        )
    found = {name: value for name, value in values.items() if value is not None}
    for name, value in found.items():
        scope.var(name).set(value.numpy())
    return {name: value.shape or () for name, value in found.items()}


def _compare_names(program: ow.Program, saved: ow.Program) -> list[str]:
    own = {parameter.name: None for parameter in program.parameters()}
    theirs = {parameter.name: None for parameter in saved.parameters()}
    return [
        *[f"none for {name!r}" for name in own if name not in theirs],
        *[f"{name!r}, which the model lacks" for name in theirs if name not in own],
    ]


def _compare_metas(variable: ow.Variable, shape: Shape, dtype: str) -> list[str]:
    wanted = shape if variable.shape is None else variable.shape
    if shapes_match(wanted, shape) and dtype == variable.dtype:
        return []
    found, asked = f"{dtype}{format_shape(shape)}", f"{variable.dtype}{format_shape(wanted)}"
    return [f"{variable.name!r} as {found} instead of {asked}"]
