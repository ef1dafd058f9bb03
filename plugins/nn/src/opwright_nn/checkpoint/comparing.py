"""Compares a program with a saved program: which variables and operators differ."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import opwright as ow
from opwright.errors import ProgramError
from opwright.op import format_shape, shapes_match
from opwright_nn.checkpoint.reading import Saved

Array = npt.NDArray[Any]
Shape = tuple[int, ...]

_MAX_LISTED: Final = 8


def persistables(program: ow.Program) -> list[ow.Variable]:
    """Return the variables that a checkpoint of a program contains."""
    return [var for var in program.global_block().vars.values() if var.persistable]


def fitting_values(
    who: str,
    path: str | os.PathLike[str],
    program: ow.Program,
    saved: Saved,
    ignored: Collection[str] = (),
) -> dict[str, Array]:
    """Return the saved values of the persistable variables of a program.

    Parameters
    ----------
    who, path : str
        The caller and the folder, for messages.
    program : Program
        Its parameters must match the saved parameters in name, shape and dtype. Other variables
        may be float64 if float32 was saved, as for the powers of Adam's betas, and get the same
        value.
    saved : Saved
        The model in the folder.
    ignored : collection of str
        Names of variables that are not returned.

    Raises
    ------
    ProgramError
        Parameters are missing or superfluous, or have a different shape or dtype.
    """
    variables = [var for var in persistables(program) if var.name not in ignored]
    values = {var.name: saved.scope.find_var(var.name) for var in variables}
    problems = _compare_names(program, saved.program)
    for variable in variables:
        value = values[variable.name]
        if value is not None:
            dtype = variable.dtype if _widens(variable, value.dtype) else value.dtype
            problems += _compare_metas(variable, value.shape or (), dtype or "")
    if problems:
        raise ProgramError(
            f"{who}: {os.fspath(path)} must hold the parameters of this model, got "
            f"{list_some(problems)}; build the same model"
        )
    return {
        variable.name: _in_its_dtype(variable, value.numpy())
        for variable in variables
        if (value := values[variable.name]) is not None
    }


def _widens(variable: ow.Variable, dtype: str | None) -> bool:
    is_parameter = isinstance(variable, ow.Parameter)
    return not is_parameter and (dtype, variable.dtype) == ("float32", "float64")


def _in_its_dtype(variable: ow.Variable, value: Array) -> Array:
    return value.astype(np.float64) if _widens(variable, value.dtype.name) else value


def shared_values(
    program: ow.Program, saved: Saved, names: Iterable[str]
) -> tuple[dict[str, Array], list[str]]:
    """Return the saved values of matching variables, and the problems of other variables.

    Parameters
    ----------
    program : Program
        Contains the variables, with their shapes if known.
    saved : Saved
        The model in the folder.
    names : iterable of str
        The variables.
    """
    values, problems = {}, []
    for name in names:
        value = saved.scope.find_var(name)
        if value is None or not value.is_set:
            problems.append(f"none for {name!r}")
            continue
        variable = program.global_block().var(name)
        differences = _compare_metas(variable, value.shape or (), value.dtype or "")
        problems += differences
        if not differences:
            values[name] = value.numpy()
    return values, problems


def check_same(
    who: str,
    path: str | os.PathLike[str],
    program: ow.Program,
    saved: Saved,
    values: Collection[str],
) -> None:
    """Raise ProgramError unless a program and its persistable variables match the saved ones."""
    problems = compare_operators(program, saved.program)
    own = [var.name for var in persistables(program)]
    problems += [f"none for {name!r}" for name in own if name not in values]
    others = [var.name for var in persistables(saved.program)]
    problems += [f"{name!r}, which the model lacks" for name in others if name not in own]
    if problems:
        raise ProgramError(
            f"{who}: {os.fspath(path)} must hold this model, got {list_some(problems)}; build the "
            "same model, or load its parameters alone: model.load_parameter(folder)"
        )


def list_some(problems: list[str]) -> str:
    """Return problems as one string: the first few, and the number of the remaining problems."""
    more = f" and {len(problems) - _MAX_LISTED} more" if len(problems) > _MAX_LISTED else ""
    return f"{'; '.join(problems[:_MAX_LISTED])}{more}"


def op_types(program: ow.Program) -> list[list[str]]:
    """Return the types of the operators, by block."""
    return [[op.type for op in block.ops] for block in program.blocks]


def compare_operators(program: ow.Program, saved: ow.Program) -> list[str]:
    """Return the first operator that differs, including in attributes and streams."""
    own_ops = [_describe(op) for block in program.blocks for op in block.ops]
    other_ops = [_describe(op) for block in saved.blocks for op in block.ops]
    for index, (own, other) in enumerate(zip(own_ops, other_ops, strict=False)):
        for name in dict.fromkeys([*own, *other]):
            if own.get(name) != other.get(name):
                difference = f"{name} {other.get(name)} instead of {own.get(name)}"
                return [f"operator {index}, {own['type']}, with {difference}"]
    if len(own_ops) != len(other_ops):
        return [f"{len(other_ops)} operators instead of {len(own_ops)}"]
    return []


def _describe(op: ow.Operator) -> dict[str, str]:
    """Describe an operator by named strings, which are equal for equal operators."""
    return {
        "type": op.type,
        **{f"input {slot}": str(list(names)) for slot, names in op.inputs.items() if names},
        **{f"output {slot}": str(list(names)) for slot, names in op.outputs.items() if names},
        **{name: repr(value) for name, value in op.attrs.items()},
    }


def _compare_names(program: ow.Program, saved: ow.Program) -> list[str]:
    own = {parameter.name: None for parameter in program.parameters()}
    others = {parameter.name: None for parameter in saved.parameters()}
    return [
        *[f"none for {name!r}" for name in own if name not in others],
        *[f"{name!r}, which the model lacks" for name in others if name not in own],
    ]


def _compare_metas(variable: ow.Variable, shape: Shape, dtype: str) -> list[str]:
    own = shape if variable.shape is None else variable.shape
    if shapes_match(own, shape) and dtype == variable.dtype:
        return []
    meta, own_meta = f"{dtype}{format_shape(shape)}", f"{variable.dtype}{format_shape(own)}"
    return [f"{variable.name!r} as {meta} instead of {own_meta}"]
