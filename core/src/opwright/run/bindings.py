"""Finds the variables of a scope that a network reads and writes, and their metas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from opwright import vocabulary
from opwright._runtime import Device, Scope
from opwright.describe.meta import Meta
from opwright.program import Block, Operator
from opwright.program.operator import names_read_first


def lasting_names(
    block: Block | None, ops: Sequence[Operator], fetches: Iterable[str] = ()
) -> frozenset[str]:
    """Return the names that are kept in the scope.

    In a block these are its persistable variables. Operators without a block have no variables;
    then these are the names that they read before they write them.
    """
    if block is None:
        return frozenset(names_read_first(ops))
    names = set(fetches)
    for op in ops:
        names.update(op.input_names(), op.output_names())
    variables = map(block.find_var, names)
    return frozenset(var.name for var in variables if var is not None and var.persistable)


def scope_metas(scope: Scope, names: Iterable[str], device: Device) -> dict[str, Meta]:
    """Return the metas of those names that the scope has, after moving them to `device`.

    ``@step`` is created if it is missing: every program begins at step 0.
    """
    metas = {}
    for name in names:
        variable = scope.find_var(name)
        if name == vocabulary.STEP and (variable is None or not variable.is_set):
            variable = scope.var(name)
            variable.set(np.zeros(1, np.int64))
        shape, dtype = (None, None) if variable is None else (variable.shape, variable.dtype)
        if variable is None or shape is None or dtype is None:
            continue
        if variable.opened_device is not device:
            variable.set(variable.numpy(), device=device)
        metas[name] = Meta(tuple(shape), dtype)
    return metas
