"""Checks the arguments of `Network`, its ``run`` and its ``compile``, and creates its requests."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from opwright import vocabulary
from opwright._runtime import Device, Scope
from opwright.context.context import current_context
from opwright.context.threads import is_deterministic
from opwright.describe.meta import Meta
from opwright.errors import FeedError, ProgramError
from opwright.lowering import Fetches, LowerRequest, Persistables, Target
from opwright.messages.arguments import check_flag
from opwright.messages.names import hint
from opwright.program import Block, Operator, Variable, default_scope
from opwright.program.operator import names_read_first
from opwright.program.variable import iterates, list_names
from opwright.registry import HOST_DEVICE, DeviceName
from opwright.run.feeds import FeedSpec
from opwright.run.scopes import check_scope

if TYPE_CHECKING:
    from opwright.lowering.lock import Lock


def choose_scope(who: str, given: Any) -> Scope:
    """Return the given scope or the default scope; AttributeTypeError for anything else."""
    return default_scope() if given is None else check_scope(who, given)


def check_fallback(who: str, fallback: Any) -> None:
    """Raise ProgramError for a fallback device other than the host."""
    if fallback is not None and not (isinstance(fallback, str) and fallback == HOST_DEVICE):
        raise ProgramError(
            f"{who}: fallback must be None or {HOST_DEVICE!r}, got {fallback!r}; only the host can "
            "run operators for which a device has no kernel"
        )


def choose_deterministic(who: str, given: Any) -> bool:
    """Return whether a plan must be deterministic; by default OPWRIGHT_DETERMINISTIC decides."""
    if given is None:
        return is_deterministic()
    if not isinstance(given, bool):
        raise ProgramError(
            f"{who}: deterministic must be True, False or None, got {given!r}; give True "
            "for results that do not depend on the number of threads"
        )
    return given


def _choose_passes(
    passes: Any, lock: Lock | str | os.PathLike[str] | None
) -> tuple[Lock | None, tuple[str, ...] | None]:
    """Return the lock, possibly read from its file, and the passes to run, or None for all."""
    if lock is None:
        return None, None if passes is None else tuple(list_items(passes, "passes"))
    if passes is not None:
        raise ProgramError(
            "Network.compile: the lock lists the passes to run, got "
            f"passes={passes!r} as well; omit passes="
        )
    from opwright.lowering.lock import Lock

    if isinstance(lock, (str, os.PathLike)):
        lock = Lock.load(lock)
    elif not isinstance(lock, Lock):
        raise ProgramError(
            f"Network.compile: lock must be a Lock or the path of a lock file, got {lock!r}; write "
            "lock='program.lock'"
        )
    return lock, tuple(row.name for row in lock.passes)


def choose_target(
    device: str,
    fallback: str | None,
    passes: Sequence[str] | None,
    options: Mapping[str, Any] | None,
    deterministic: bool | None,
    lock: Lock | str | os.PathLike[str] | None,
) -> Target:
    """Return where and how a network runs, from the arguments of `Network.compile`."""
    check_fallback("Network.compile", fallback)
    name, context = DeviceName.parse(device, "Network.compile"), current_context()
    given = {} if options is None else options
    chosen = context.options.check("Network.compile", given, context.chosen_options)
    checked_lock, names = _choose_passes(passes, lock)
    if checked_lock is not None:
        checked_lock.check(context, name.kind)
    return Target(
        context,
        name,
        fallback,
        passes=names,
        lock=checked_lock,
        options=tuple(chosen.items()),
        deterministic=choose_deterministic("Network.compile", deterministic),
    )


def check_range(first: Any, last: Any, count: int) -> tuple[int, int]:
    """Return the first operator to run and the end of the range; ProgramError if it is invalid."""
    begin = 0 if first is None else first
    end = count - 1 if last is None else last
    for name, index in (("first", begin), ("last", end)):
        if isinstance(index, bool) or not isinstance(index, int):
            raise ProgramError(f"Network.run: {name} must be an index, got {index!r}")
        if count and not 0 <= index < count:
            raise ProgramError(
                f"Network.run: {name} must be in [0, {count}), got {index}; use a result of add_op"
            )
    if begin > end + 1:
        raise ProgramError(f"Network.run: first must not be after last, got {begin} and {end}")
    return begin, end + 1


def list_items(items: Any, what: str) -> list[Any]:
    """Return the items of the argument feed, fetch or passes; refuse a single name."""
    if isinstance(items, (str, Variable)) or not iterates(items):
        raise FeedError(
            f"Network.compile: {what} must be a list, got {items!r}; write {what}=[{items!r}]"
        )
    listed = list(items)
    for item in listed:
        if not isinstance(item, (str, Variable)):
            raise FeedError(f"Network.compile: {what} must list variables or names, got {item!r}")
    return listed


def check_fetches(
    items: Iterable[Variable | str], ops: Iterable[Operator], block: Block | None
) -> tuple[str, ...]:
    """Return the names of fetches; raise FeedError for a name without a variable."""
    names = tuple(list_names(items, "fetch"))
    known = {name for op in ops for name in (*op.input_names(), *op.output_names())}
    for name in names:
        if name not in known and (block is None or block.find_var(name) is None):
            raise FeedError(f"fetch: the network has no variable {name!r}{hint(name, known)}")
    return names


def check_delivery(fetch_as: Any, detach: Any, fetch_device: Any = False) -> None:
    """Raise FeedError for an importer that is not callable, and check that two flags are bools."""
    if fetch_as is not None and not callable(fetch_as):
        raise FeedError(
            f"Network.compile: fetch_as must be callable, as torch.from_dlpack is, got {fetch_as!r}"
        )
    for name, flag in (("detach", detach), ("fetch_device", fetch_device)):
        check_flag("Network.compile", name, flag)


def check_fed(
    items: Iterable[Variable | str], argument: str, feeds: Iterable[FeedSpec]
) -> frozenset[str]:
    """Return the names of feeds in an argument; FeedError for a name that is not a feed."""
    names = frozenset(list_names(items, argument))
    fed = [spec.name for spec in feeds]
    for name in names:
        if name not in fed:
            raise FeedError(f"{argument}: must be feeds, got {name!r}{hint(name, fed)}; feed it")
    return names


def check_writes(
    items: Iterable[Variable | str], feeds: Iterable[FeedSpec], ops: Iterable[Operator]
) -> frozenset[str]:
    """Return the names of feeds that a network writes; FeedError for other names."""
    names = check_fed(items, "writes", feeds)
    written = {name for op in ops for name in op.output_names()}
    for name in names:
        if name not in written:
            raise FeedError(f"writes: no operator writes {name!r}{hint(name, written)}; omit it")
    return names


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

    Raises FeedError for an unknown fetch, a duplicate feed, or `varying` names not in the scope.
    """
    fed = [spec.name for spec in feeds]
    for name in fed:
        if fed.count(name) > 1:
            raise FeedError(f"feed: a variable must be fed once, got {name!r} twice; name it once")
    fetches = check_fetches(fetch, ops, block)
    lasting = lasting_names(block, ops, fetches) - set(fed)
    names = frozenset(list_names(list_items(varying, "varying"), "varying"))
    for name in sorted(names - lasting):
        raise FeedError(
            f"varying: must be variables of the scope, got {name!r}{hint(name, lasting)}; name a "
            "persistable variable that an operator reads"
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

    For a block, the result has its persistable variables. Operators without a block do not have
    variables, so the result has the names that they read before they write them.
    """
    if block is None:
        return frozenset(names_read_first(ops))
    names = set(fetches)
    for op in ops:
        names.update(op.input_names(), op.output_names())
    variables = map(block.find_var, names)
    return frozenset(var.name for var in variables if var is not None and var.persistable)


def scope_metas(scope: Scope, names: Iterable[str], device: Device) -> dict[str, Meta]:
    """Move variables of the scope to `device`; return the metas of the names that exist.

    ``@step`` is created if it is missing, since every program begins at step 0.
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
        metas[name] = Meta(shape, sys.intern(dtype))  # it is compared and hashed often
    return metas
