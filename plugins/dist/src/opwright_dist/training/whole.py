"""Programs and states as one process would have them: what is saved, and what is read again.

Files hold no trace of the number of processes, nor of how they have divided layers or states.
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
    """Return a program with the variables of one process; itself where it has these.

    Parameters
    ----------
    program : Program
        Is not changed.
    """
    return whole_divided(whole_sharded(program))


@suggest_arguments
def gather_state(program: ow.Program, scope: ow.Scope | None = None) -> ow.Scope:
    """Return a scope that has whole variables for those of which each process has a part.

    Every process calls it, and the first one gets them; its scope has all other variables of
    `scope`, too. Give it and `whole_program` to `opwright.save`.

    Parameters
    ----------
    program : Program
        Of a training step.
    scope : Scope, optional
        Holds the variables; by default the default scope.

    Raises
    ------
    DistError
        A state that lies in shards has no value.
    """
    held = ow.default_scope() if scope is None else scope
    return join_divided(program, join_sharded(program, held))


@suggest_arguments
def shard_values(program: ow.Program, values: Mapping[str, Array]) -> dict[str, Array]:
    """Return arrays of whole variables as this process has them: its part of those it divides.

    Parameters
    ----------
    program : Program
        Of a training step.
    values : mapping of str to array
        By the names of variables; those that are not divided are returned as they are.

    Raises
    ------
    DistError
        An array does not have the shape of the whole variable.
    """
    return take_divided(program, take_sharded(program, values))
