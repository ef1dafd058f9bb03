"""Converts programs and states to the form of a single process, for saving and loading.

Files do not depend on the number of processes or on how layers and states are partitioned.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

import opwright as ow
from opwright.plugin import suggest_arguments
from opwright_dist.training.divided import join_divided, take_divided, whole_divided
from opwright_dist.training.sharded import join_sharded, take_sharded, whole_sharded

Array = npt.NDArray[Any]


@suggest_arguments
def whole_program(program: ow.Program) -> ow.Program:
    """Return a program with the variables of a single process; `program` if it has them already.

    Parameters
    ----------
    program : Program
        Not modified.
    """
    return whole_divided(whole_sharded(program))


@suggest_arguments
def gather_state(program: ow.Program, scope: ow.Scope | None = None) -> ow.Scope:
    """Return a scope in which partitioned variables are complete.

    Every process must call this function. The first process receives the complete variables, and
    its scope also has all other variables of `scope`. Pass the returned scope and the result of
    `whole_program` to `opwright.save`.

    Parameters
    ----------
    program : Program
        The program of a training step.
    scope : Scope, optional
        Holds the variables; by default the default scope.

    Raises
    ------
    DistError
        If a sharded state has no value.
    """
    held = ow.default_scope() if scope is None else scope
    return join_divided(program, join_sharded(program, held))


@suggest_arguments
def shard_values(program: ow.Program, values: Mapping[str, Array]) -> dict[str, Array]:
    """Return this process's parts of partitioned variables, given the complete variables.

    Parameters
    ----------
    program : Program
        The program of a training step.
    values : mapping of str to array
        Arrays by variable name; values of unpartitioned variables are returned unchanged.

    Raises
    ------
    DistError
        If an array does not have the shape of the complete variable.
    """
    return take_divided(program, take_sharded(program, values))
