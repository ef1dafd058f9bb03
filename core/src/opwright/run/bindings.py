"""Which variables of a scope a network touches, and what the scope holds of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from opwright._runtime import Device, Scope
from opwright.describe import vocabulary
from opwright.describe.meta import Meta
from opwright.program import Block, Operator


def names_read_first(ops: Iterable[Operator]) -> tuple[str, ...]:
    """Return the names that operators read before any of them writes them, in that order.

    These are what a run needs: feeds, and variables that the scope must hold.

    Parameters
    ----------
    ops : iterable of Operator
        In the order in which they run, such as ``block.ops``.
    """
    written: set[str] = set()
    read: dict[str, None] = {}
    for op in ops:
        for names in op.inputs.values():
            for name in names:
                if name not in written:
                    read[name] = None
        for names in op.outputs.values():
            written.update(names)
    return tuple(read)


def lasting_names(
    block: Block | None, ops: Sequence[Operator], fetches: Iterable[str] = ()
) -> frozenset[str]:
    """Names that live on in the scope.

    In a block these are its persistable variables; loose operators have no descriptions, so it is
    what they read before they write it.
    """
    if block is None:
        return frozenset(names_read_first(ops))
    names = set(fetches)
    for op in ops:
        names.update(op.input_names(), op.output_names())
    return frozenset(name for name in names if _is_persistable(name, block))


def _is_persistable(name: str, block: Block) -> bool:
    variable = block.find_var(name)
    return variable is not None and variable.persistable


def scope_metas(scope: Scope, names: Iterable[str], device: Device) -> dict[str, Meta]:
    """Metas of those of `names` that the scope holds, moved to `device` where they lie elsewhere.

    ``@step`` is made where it is missing: every program begins at step 0.
    """
    metas = {}
    for name in names:
        variable = scope.find_var(name)
        if name == vocabulary.STEP and (variable is None or not variable.is_set):
            variable = scope.var(name)
            variable.set(np.zeros(1, np.int64))
        if variable is None or variable.shape is None or variable.dtype is None:
            continue
        if variable.opened_device is not device:
            variable.set(variable.numpy(), device=device)
        metas[name] = Meta(tuple(variable.shape), variable.dtype)
    return metas
