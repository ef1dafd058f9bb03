"""Loads weights of other frameworks from a safetensors file; a mapping translates the names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

import opwright as ow
from opwright.errors import AttributeTypeError, ProgramError
from opwright.op import format_shape, shapes_match
from opwright.plugin import hint
from opwright_nn import arguments, checks
from opwright_nn.checkpoint.comparing import Array, list_some, persistables

_COUNTER: Final = "num_batches_tracked"
"""A counter of PyTorch's batch normalization, which is unused by default."""


@arguments.suggest
class transposed(NamedTuple):  # noqa: N801 - used like a function
    """Marks a tensor whose axes are in the reverse order: ``transposed("0.weight")``.

    PyTorch's ``nn.Linear`` stores [out, in], and ``fc`` stores [in, out]. Convolution weights have
    the same layout in both frameworks.
    """

    name: str


@arguments.suggest
def load_weights(
    path: str | os.PathLike[str],
    program: ow.Program,
    scope: ow.Scope,
    names: Mapping[str, str | transposed],
    *,
    strict: bool = True,
) -> None:
    """Set parameters and states from a safetensors file, such as a PyTorch ``state_dict``.

    ::

        safetensors.torch.save_file(network.state_dict(), "weights.safetensors")  # in PyTorch

        nn.checkpoint.load_weights(
            "weights.safetensors",
            model.program,
            model.scope,
            {"fc_0_w_param": transposed("0.weight"), "fc_0_b_param": "0.bias"},
        )

    Parameters
    ----------
    path : str or PathLike
        The file.
    program : Program
        The program of the variables.
    scope : Scope
        The scope that receives the values, such as ``model.scope``.
    names : mapping of str to str or transposed
        Maps the name of a variable to the name of its tensor in the file.
    strict : bool
        True requires a tensor for each parameter of the program, and a variable for each tensor
        except those named ``num_batches_tracked``, which are only PyTorch counters.

    Raises
    ------
    ProgramError
        A name is unknown or missing, or a shape or dtype differs; nothing is changed. A tensor of
        a narrower float dtype is not an error; it is converted exactly.
    """
    who = "checkpoint.load_weights"
    checks.check_instance(who, "program", program, ow.Program, required=True)
    checks.check_instance(who, "scope", scope, ow.Scope, required=True)
    if not isinstance(names, Mapping):
        raise AttributeTypeError(
            f"{who}: names must be a mapping, got {names!r}; write "
            "{'fc_0_w_param': transposed('0.weight')}"
        )
    checks.check_bool(who, "strict", strict)
    tensors = ow.load_tensors(path)
    _check_names(who, program, tensors, names, strict)
    variables = program.global_block().vars
    values, problems = {}, []
    for name, source in names.items():
        array = tensors[_source_name(source)]
        value = array.T if isinstance(source, transposed) else array
        problem = _compare(variables[name], value, source)
        problems += [problem] if problem else []
        values[name] = value
    if problems:
        raise ProgramError(f"{who}: {path} must fit the program, got {list_some(problems)}")
    for name, value in values.items():
        _set(variables[name], scope, value)


def _check_names(
    who: str,
    program: ow.Program,
    tensors: Mapping[str, Array],
    names: Mapping[str, str | transposed],
    strict: bool,
) -> None:
    known = [variable.name for variable in persistables(program)]
    for name, source in names.items():
        if name not in known:
            raise ProgramError(
                f"{who}: names must map variables of the program, "
                f"got {name!r}{hint(str(name), known, 'variables')}"
            )
        if _source_name(source) not in tensors:
            raise ProgramError(
                f"{who}: names must map to tensors of the file, got {_source_name(source)!r} for "
                f"{name!r}{hint(str(_source_name(source)), tensors, 'tensors')}"
            )
    if not strict:
        return
    sources = {_source_name(source) for source in names.values()}
    missing = [f"none for {p.name!r}" for p in program.parameters() if p.name not in names]
    missing += [f"none to {name!r}" for name in tensors if _is_needed(name, sources)]
    if missing:
        raise ProgramError(
            f"{who}: names must map every parameter to a tensor, got {list_some(missing)}; add "
            "them, or pass strict=False"
        )


def _is_needed(name: str, sources: set[str]) -> bool:
    return name not in sources and name.rpartition(".")[2] != _COUNTER


def _source_name(source: str | transposed) -> str:
    return source.name if isinstance(source, transposed) else source


def _compare(variable: ow.Variable, value: Array, source: str | transposed) -> str | None:
    """Return how a tensor differs from its variable, or None if they match."""
    shape = variable.shape
    got = f"{variable.name!r} from {_source_name(source)!r} as {value.dtype.name}"
    if shape is not None and not shapes_match(shape, value.shape):
        turned = shapes_match(shape, value.shape[::-1]) and not isinstance(source, transposed)
        fix = f"; write transposed({_source_name(source)!r})" if turned else ""
        wanted = f"{variable.dtype}{format_shape(shape)}"
        return f"{got}{format_shape(value.shape)} instead of {wanted}{fix}"
    dtype = variable.dtype
    if value.dtype.name != dtype and not np.can_cast(value.dtype, dtype or "", "safe"):
        return f"{got} instead of {dtype}; convert it first, which loses precision"
    return None


def _set(variable: ow.Variable, scope: ow.Scope, value: Any) -> None:
    if variable.shape != value.shape:
        variable.shape = value.shape  # with the sizes of the first batch
    array = np.ascontiguousarray(value).reshape(value.shape)
    scope.var(variable.name).set(array.astype(variable.dtype, copy=False))
