"""Kernel selection: candidates in order, each prepared or refused; the rest is an error that helps.

Prepared kernels are kept in the context by (kernel, attributes, metas, threads, options): making
one may cost milliseconds, and equal layers need it once. All kernels of a plan use one number of
threads: that of the process, or one where the plan turns out to be short.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from opwright.errors import KernelNotFoundError, OutOfMemoryError
from opwright.lowering.graph.constants import is_constant
from opwright.lowering.graph.graph import Graph
from opwright.lowering.graph.making import signature_of
from opwright.lowering.graph.signature import Choice, Signature
from opwright.lowering.graph.values import (
    Buffer,
    LoweredOp,
    Role,
    Value,
    copy_op,
    new_value,
)
from opwright.lowering.kernels.estimate import is_short
from opwright.lowering.kernels.finish import Unfinished, remember
from opwright.lowering.kernels.prepare import opened_device, prepare_kernel
from opwright.lowering.kernels.quarantine import find_load_failure
from opwright.lowering.lock import describe_unserved, make_lock_error
from opwright.registry import HOST_DEVICE
from opwright.registry.kernels import REFUSED
from opwright.registry.prepare_context import Refuse

if TYPE_CHECKING:
    from opwright._runtime import Prepared
    from opwright.lowering.request import Target
    from opwright.registry import KernelEntry

NOT_DETERMINISTIC: Final = f"{REFUSED}two runs may give other bits, and the plan is deterministic"
"""Why a kernel that declares it does not serve a deterministic plan."""


def select_kernels(graph: Graph) -> None:
    """Choose and prepare a kernel for every operator that has none yet.

    Raises
    ------
    KernelNotFoundError
        Listing what is registered, what was refused and why, and what to install.
    LockError
        Listing the operators that no locked kernel serves.
    """
    moved = False
    unserved = []
    for op in graph.ops:
        if not _needs_kernel(op) or op.entry is not None:
            continue
        if find_kernel(op, graph):
            continue
        if graph.target.fallback and _may_fall_back(op, graph) and _find(op, HOST_DEVICE, graph):
            op.device = HOST_DEVICE
            moved = True
            continue
        unserved.append(_describe_unserved(op, graph))
    if unserved and graph.target.lock is not None:
        raise make_lock_error(unserved, (), graph.target.context)
    graph.n_threads = graph.target.n_threads
    if graph.n_threads > 1:
        _serve_alone(graph)
    if moved:
        _copy_across(graph)


def _describe_unserved(op: LoweredOp, graph: Graph) -> str:
    """Return how an operator differs from the lock; raise where no kernel serves without it."""
    target, dtype = graph.target, signature_of(op).dtype
    candidates = target.context.candidates(op.type, graph.device, dtype)
    if target.fallback and _may_fall_back(op, graph):
        candidates += target.context.candidates(op.type, HOST_DEVICE, dtype)
    if target.lock is None or not candidates:
        raise _not_found(op, graph)
    return describe_unserved(op.type, graph.device, dtype, op.refusals, candidates)


def _not_found(op: LoweredOp, graph: Graph) -> KernelNotFoundError:
    target, dtype = graph.target, signature_of(op).dtype
    context = target.context
    pinned = context.pins.get(op.type)
    refusals = op.refusals  # of the device alone: the next line may add to them
    could_fall_back = target.fallback is None and target.takes_fallback
    helps = could_fall_back and _may_fall_back(op, graph) and _find(op, HOST_DEVICE, graph)
    error = context.kernels.not_found(op.type, graph.device, dtype, refusals, pinned)
    way_out = f'\n  to run it on the host: give fallback="{HOST_DEVICE}"' if helps else ""
    if any(reason == NOT_DETERMINISTIC for _, reason in refusals):
        way_out += "\n  to allow results that differ from run to run: give deterministic=False"
    return KernelNotFoundError(f"{error}{way_out}")


def _needs_kernel(op: LoweredOp) -> bool:
    return not op.is_copy and not op.children


def _serve_alone(graph: Graph) -> None:
    """Choose kernels for one thread where the plan is short, unless one of them refuses that."""
    host = [
        op for op in graph.ops if _needs_kernel(op) and (op.device or graph.device) == HOST_DEVICE
    ]
    often = [op for op in host if not is_constant(op)]
    if not is_short(often, graph.n_threads if graph.target.deterministic else 2):
        return
    single = replace(graph.target, n_threads=1)
    choices: dict[tuple[int, int], Choice] = {}  # equal operators share signature and kernel
    changed = []
    for op in host:
        key = (id(signature_of(op)), id(op.prepared))
        choice = choices.get(key)
        if choice is None:
            if HOST_DEVICE in signature_of(op).choices:
                continue  # its kernel knows nothing of threads
            choice = _choose_for(op, signature_of(op), HOST_DEVICE, graph, single)
            if choice is None:
                return
            choices[key] = choice
        changed.append((op, choice))
    for op, choice in changed:
        _give(op, choice)
    graph.n_threads = 1


def _may_fall_back(op: LoweredOp, graph: Graph) -> bool:
    """Whether the host can run the operator; what it resizes would be out of the device's reach."""
    return graph.device != HOST_DEVICE and not op.is_dynamic


def find_kernel(op: LoweredOp, graph: Graph) -> bool:
    """Give ``op`` the best kernel of the plan's device; return whether there is one."""
    return _find(op, graph.device, graph)


def find_preferring_kernel(op: LoweredOp, name: str, graph: Graph) -> bool:
    """Give ``op`` the best kernel if that prefers its attribute; return whether it does."""
    signature = signature_of(op)
    candidates = graph.target.candidates(op.type, graph.device, signature.dtype)
    suited = [i for i, entry in enumerate(candidates) if entry.suits(op.attrs, name)]
    if not suited:
        return False
    choice = signature.choices.get(graph.device)
    if choice is None:  # those behind the last one that prefers it cannot make it true
        worth_asking = candidates[: suited[-1] + 1]
        choice = _choose_for(op, signature, graph.device, graph, graph.target, worth_asking)
    if choice is None or not choice.entry.suits(op.attrs, name):
        return False
    _give(op, choice)
    return True


def _find(op: LoweredOp, device: str, graph: Graph) -> bool:
    signature = signature_of(op)
    choice = signature.choices.get(device)
    if choice is None:
        choice = _choose_for(op, signature, device, graph, graph.target)
    if choice is None:
        return False
    _give(op, choice)
    return True


def _give(op: LoweredOp, choice: Choice) -> None:
    op.entry, op.prepared, op.reuse, refusals = choice
    if refusals:
        op.refusals = (*op.refusals, *refusals)
    size_bytes = op.prepared.workspace_bytes
    op.workspace = Buffer(size_bytes) if size_bytes else None


def _choose_for(
    op: LoweredOp,
    signature: Signature,
    device: str,
    graph: Graph,
    target: Target,
    candidates: Sequence[KernelEntry] | None = None,
) -> Choice | None:
    """The choice for these threads and packable arguments, made once for equal operators.

    `candidates` are the only ones to try, the first of those that there are.
    """
    packable = _packable(op, graph)
    key = (device, target.n_threads, packable)
    choice = signature.choices.get(key)
    if choice is None:
        if candidates is None:
            candidates = target.candidates(op.type, device, signature.dtype)
        choice, depends = _choose(op, signature, device, packable, graph, target, candidates)
        if choice is not None:
            target.choices.add_kernel(choice.entry, target.context)
            signature.choices[key if depends else device] = choice
    return choice


def _choose(
    op: LoweredOp,
    signature: Signature,
    device: str,
    packable: tuple[int, ...],
    graph: Graph,
    target: Target,
    candidates: Sequence[KernelEntry],
) -> tuple[Choice | None, bool]:
    """The first kernel that does not refuse, and whether it depends on more than the signature."""
    depends = False
    lacking: OutOfMemoryError | None = None
    refusals: list[tuple[KernelEntry, str]] = []
    for entry in candidates:
        reason = _find_reason(entry, target)
        if reason is not None:
            refusals.append((entry, reason))
            continue
        depends = depends or entry.takes_prepare
        key = _key_of(entry, signature, device, packable, target)
        prepared = target.context.prepared.get(key)
        if prepared is None:
            try:
                prepared = _prepare(entry, key, op, device, packable, graph, target)
            except OutOfMemoryError as error:
                if target.deterministic:  # another kernel would give other bits
                    raise
                lacking = error
                continue
        if isinstance(prepared, Refuse):
            refusals.append((entry, REFUSED + prepared.reason))
            continue
        if lacking is not None:
            text = f"{lacking}; {entry.library!r} serves this plan instead"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        return signature.choose(entry, prepared, tuple(refusals)), depends
    if lacking is not None:
        raise lacking
    op.refusals = (*op.refusals, *refusals)
    return None, depends


def _find_reason(entry: KernelEntry, target: Target) -> str | None:
    """Why a kernel is not even asked, None where it is."""
    fault = find_load_failure(entry, target.context)
    if fault is None and target.deterministic and not entry.deterministic:
        return NOT_DETERMINISTIC
    return fault


def _key_of(
    entry: KernelEntry,
    signature: Signature,
    device: str,
    packable: tuple[int, ...],
    target: Target,
) -> tuple[Any, ...]:
    """All that the prepared kernel depends on."""
    key: tuple[Any, ...] = (entry, signature.attrs_key)  # a function is prepared for any shape
    if entry.takes_prepare:
        metas = (signature.inputs, signature.outputs)
        # What belongs to one device may be in it, such as a module that was loaded there.
        opened = opened_device(device, target)
        count = (target.n_threads, target.deterministic)
        return (*key, *metas, opened, packable, count, target.options)
    if device != HOST_DEVICE:
        return (*key, opened_device(device, target))
    return key


def _prepare(
    entry: KernelEntry,
    key: tuple[Any, ...],
    op: LoweredOp,
    device: str,
    packable: tuple[int, ...],
    graph: Graph,
    target: Target,
) -> Prepared | Refuse:
    """Prepare a kernel, and remember it or its refusal; a lack of memory is not remembered."""
    begin = time.perf_counter()
    deferred: list[Any] = []
    prepared = prepare_kernel(entry, op, device, packable, target, deferred)
    graph.prepare_s += time.perf_counter() - begin
    if deferred and not isinstance(prepared, Refuse):
        unfinished = Unfinished(entry, key, device, packable, target, tuple(deferred))
        graph.unfinished[prepared] = unfinished
    else:
        remember(target.context.prepared, key, prepared)
    return prepared


def _packable(op: LoweredOp, graph: Graph) -> tuple[int, ...]:
    """Flat arguments that the plan reads from the scope and never writes, or makes of those."""
    found: tuple[int, ...] = ()
    flat = 0
    for values in op.inputs:
        for value in values:
            external = value.buffer.external
            if external is not None and external.role is Role.PERSISTABLE:
                found += () if external.name in graph.written_names else (flat,)
            elif value.is_constant and not is_constant(op):  # those come before all packing
                found += (flat,)
            flat += 1
    return found


def _copy_across(graph: Graph) -> None:
    """Put copies around the operators that run on the host instead of the plan's device."""
    ops: list[LoweredOp] = []
    for op in graph.ops:
        if op.device is None:
            ops.append(op)
            continue
        if op.workspace is not None:
            op.workspace.device = HOST_DEVICE
        _to_host(op, ops)
        ops.append(op)
        _from_host(op, ops)
    graph.ops = ops


def _to_host(op: LoweredOp, ops: list[LoweredOp]) -> None:
    slots = []
    for slot, values in zip(op.definition.proto.inputs, op.inputs, strict=True):
        if slot.shape_only:
            slots.append(values)
            continue
        moved = tuple([_on_host(value) for value in values])
        ops += [copy_op(a, b, op.index) for a, b in zip(values, moved, strict=True)]
        slots.append(moved)
    op.inputs = tuple(slots)


def _from_host(op: LoweredOp, ops: list[LoweredOp]) -> None:
    """Let the operator write on the host, in place where it must, and copy to the device."""
    aliased = dict(op.definition.alias_slots)
    slots = []
    for position, values in enumerate(op.outputs):
        moved = [_on_host(value) for value in values]
        if position in aliased:
            for here, source in zip(moved, op.inputs[aliased[position]], strict=True):
                here.buffer = source.buffer
        for here, there in zip(moved, values, strict=True):
            here.op = op
            ops.append(copy_op(here, there, op.index))
        slots.append(tuple(moved))
    op.outputs = tuple(slots)


def _on_host(value: Value) -> Value:
    copy = new_value(value.name, value.meta)
    copy.buffer.device = HOST_DEVICE
    return copy
