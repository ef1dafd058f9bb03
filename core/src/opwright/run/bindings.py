"""Finds the feeds of a network, and the variables of a scope that it reads and writes."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

import numpy as np

from opwright import vocabulary
from opwright._runtime import Device, Scope
from opwright.describe.meta import Meta
from opwright.errors import FeedError
from opwright.lowering import Fetches, LowerRequest, Persistables, Target
from opwright.messages.names import hint
from opwright.program import Block, Operator, Variable
from opwright.program.operator import names_read_first
from opwright.program.variable import list_names
from opwright.run.arguments import check_fetches, list_items
from opwright.run.feeds import FeedSpec


def feed_spec(block: Block | None, ops: Sequence[Operator], item: Variable | str) -> FeedSpec:
    """Return the spec of a feed; FeedError if the operators have no such variable."""
    name = item if isinstance(item, str) else item.name
    if block is None:
        known = names_read_first(ops)
        if name in known:
            return FeedSpec(name, None, None)
        raise FeedError(f"feed: no operator reads {name!r} before it is written{hint(name, known)}")
    variable = block.find_var(name)
    if variable is None:
        raise FeedError(f"feed: the block has no variable {name!r}{hint(name, block.vars)}")
    return FeedSpec(name, variable.shape, variable.dtype)


def make_template(
    block: Block | None,
    ops: Sequence[Operator],
    feeds: Iterable[FeedSpec],
    fetch: Iterable[Variable | str],
    target: Target,
    fetch_device: bool,
    varying: Iterable[Variable | str] = (),
) -> LowerRequest:
    """Return the request of all operators, without metas.

    FeedError for an unknown fetch, a duplicate feed, and `varying` that is not in the
    scope.
    """
    fed = [spec.name for spec in feeds]
    for name in fed:
        if fed.count(name) > 1:
            raise FeedError(f"feed: a variable is fed once, got {name!r} twice; name it once")
    fetches = check_fetches(fetch, ops, block)
    lasting = lasting_names(block, ops, fetches) - set(fed)
    names = frozenset(list_names(list_items(varying, "varying")))
    for name in sorted(names - lasting):
        raise FeedError(
            f"varying: must be variables of the scope, got {name!r}{hint(name, lasting)}; name a "
            "persistable one that an operator reads"
        )
    return LowerRequest(
        tuple(ops),
        target,
        persistables=Persistables(lasting=lasting, varying=names),
        fetches=Fetches(fetches, on_device=fetch_device),
        program=None if block is None else block.program,
    )


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
    """Return the metas of the names that the scope has, after moving them to `device`.

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
        metas[name] = Meta(shape, sys.intern(dtype))  # compared and hashed often
    return metas
