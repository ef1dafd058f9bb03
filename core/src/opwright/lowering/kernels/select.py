"""Chooses the kernel of each operator: the first candidate that does not refuse.

Prepared kernels of all existing plans are found in the context by (kernel, attributes, metas,
threads, options): preparation may take milliseconds, and equal layers share it. All kernels of a
plan use the same number of threads, which is the process-wide number, or one if the plan is short.
If the plan is expected to be short, kernels are first prepared for one thread.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from opwright._runtime import Prepared
from opwright.context.threads import is_forked
from opwright.describe.attribute_values import find_inexact
from opwright.describe.dtypes import is_float
from opwright.errors import KernelNotFoundError
from opwright.lowering.graph.constants import is_constant
from opwright.lowering.graph.graph import Graph
from opwright.lowering.graph.making import signature_of
from opwright.lowering.graph.signature import Choice, Signature
from opwright.lowering.graph.values import Buffer, LoweredOp, Value, copy_op, new_value
from opwright.lowering.kernels import estimate
from opwright.lowering.kernels.arguments import Arguments, arguments_of, find_packable, find_unread
from opwright.lowering.kernels.finish import find_prepared, prepare_again, remember
from opwright.lowering.kernels.prepare import find_load_failure, opened_device, prepare_kernel
from opwright.lowering.kernels.prepare_context import Refuse
from opwright.lowering.request import Target
from opwright.packages import ANY
from opwright.registry import HOST_DEVICE, KernelEntry
from opwright.registry.kernels import REFUSED

NOT_DETERMINISTIC: Final = f"{REFUSED}it is not deterministic, but the plan must be"
"""The reason for which a deterministic plan refuses a kernel that declares nondeterminism."""


def select_kernels(graph: Graph) -> None:
    """Choose and prepare a kernel for every operator without a kernel.

    Raises KernelNotFoundError, which lists the registered kernels, refusals with reasons, and the
    package to install, or LockError, which lists the operators without a locked kernel.
    """
    tried = graph.kernel_target
    if tried is not graph.target:
        if _suits_one_thread(graph):
            graph.target.last_short[:] = [True]
            return
        graph.kernel_target = graph.target
        for op in graph.ops:
            op.refusals = ()
    falls_back = False
    unserved = []
    for op in graph.ops:
        if not _needs_kernel(op) or (tried is graph.target and _is_settled(op, graph)):
            continue
        arguments = arguments_of(op, graph)
        if _find(op, graph.device, graph, arguments):
            continue
        single = _choose_for(op, graph.device, graph, tried, arguments) if op.entry else None
        if single is not None:  # a kernel for one thread only
            _set_kernel(op, single)
            continue
        if graph.target.fallback and _find_on_host(op, graph):
            op.device = HOST_DEVICE
            falls_back = True
            continue
        unserved.append(_describe_unserved(op, graph))
    if unserved and graph.target.lock is not None:
        from opwright.lowering.lock import make_lock_error

        raise make_lock_error(unserved, (), graph.target.context)
    graph.n_threads = graph.target.n_threads
    if graph.n_threads > 1:
        _use_one_thread_if_short(graph)
        graph.target.last_short[:] = [graph.n_threads == 1]
    if falls_back:
        _add_copies(graph)


def _suits_one_thread(graph: Graph) -> bool:
    """Choose kernels for one thread; return whether every operator has one in a short plan."""
    ops = [op for op in graph.ops if _needs_kernel(op)]
    for op in ops:
        is_settled = _is_settled(op, graph)
        if not is_settled and not _find(op, graph.device, graph, arguments_of(op, graph)):
            return False
    return _is_short(ops, graph)


def _is_short(ops: Sequence[LoweredOp], graph: Graph) -> bool:
    often = [op for op in ops if not is_constant(op)]
    return estimate.is_short(often, graph.target.n_threads if graph.target.deterministic else 2)


def _is_settled(op: LoweredOp, graph: Graph) -> bool:
    """Whether a kernel has already been chosen with the information that is known now."""
    return op.entry is not None and op.unread == find_unread(op, graph)


def _describe_unserved(op: LoweredOp, graph: Graph) -> str:
    """Return how an operator differs from the lock; raise if there is no lock or no kernel."""
    target, dtype = graph.target, signature_of(op).dtype
    candidates = target.context.candidates(op.type, graph.device, dtype)
    if target.fallback and _may_fall_back(op, graph):
        candidates += target.context.candidates(op.type, HOST_DEVICE, dtype)
    if target.lock is None or not candidates:
        raise _not_found(op, graph)
    from opwright.lowering.lock import describe_unserved

    return describe_unserved(op.type, graph.device, dtype, op.refusals, candidates)


def _not_found(op: LoweredOp, graph: Graph) -> KernelNotFoundError:
    target, dtype = graph.target, signature_of(op).dtype
    context = target.context
    pinned = context.pins.get(op.type)
    refusals = op.refusals  # of the device only: the next line may extend them
    could_fall_back = target.fallback is None and target.takes_fallback
    helps = could_fall_back and _find_on_host(op, graph)
    error = context.kernels.not_found(op.type, graph.device, dtype, refusals, pinned)
    way_out = f'\n  to run it on the host: give fallback="{HOST_DEVICE}"' if helps else ""
    if any(reason == NOT_DETERMINISTIC for _, reason in refusals):
        way_out += "\n  to allow results that differ from run to run: give deterministic=False"
    return KernelNotFoundError(f"{error}{way_out}")


def _needs_kernel(op: LoweredOp) -> bool:
    return not op.is_copy and not op.children


def _use_one_thread_if_short(graph: Graph) -> None:
    """Choose kernels for one thread if the plan is short, unless a kernel refuses that."""
    host = [
        op for op in graph.ops if _needs_kernel(op) and (op.device or graph.device) == HOST_DEVICE
    ]
    if not _is_short(host, graph):
        return
    single = graph.target.with_threads(1)
    changed = []
    for op in host:
        if HOST_DEVICE not in signature_of(op).choices:  # otherwise threads do not matter
            choice = _choose_for(op, HOST_DEVICE, graph, single, arguments_of(op, graph))
            if choice is None:
                return
            changed.append((op, choice))
    for op, choice in changed:
        _set_kernel(op, choice)
    graph.n_threads = 1


def _may_fall_back(op: LoweredOp, graph: Graph) -> bool:
    """Whether the host can run the operator: its output sizes must be known before the run."""
    return graph.device != HOST_DEVICE and not op.is_dynamic


def find_kernel(op: LoweredOp, graph: Graph) -> bool:
    """Choose the best kernel of the plan's device for ``op``; return whether one accepts it.

    The graph may still change, so the reads of its values are not yet known.
    """
    return _find(op, graph.device, graph, Arguments(find_packable(op, graph)))


def find_preferring_kernel(op: LoweredOp, name: str, graph: Graph) -> bool:
    """Choose the best kernel for ``op`` if it prefers attribute `name`; return whether it does.

    The graph may still change, as for `find_kernel`.
    """
    signature = signature_of(op)
    candidates = graph.target.candidates(op.type, graph.device, signature.dtype)
    suited = [i for i, entry in enumerate(candidates) if entry.suits(op.attrs, name)]
    if not suited:
        return False
    choice = signature.choices.get(graph.device)
    if choice is None:  # no candidate after the last one that prefers it need be tried
        arguments = Arguments(find_packable(op, graph))
        best = candidates[: suited[-1] + 1]
        choice = _choose_for(op, graph.device, graph, graph.kernel_target, arguments, best)
    if choice is None or not choice.entry.suits(op.attrs, name):
        return False
    _set_kernel(op, choice)
    return True


def _find_on_host(op: LoweredOp, graph: Graph) -> bool:
    return _may_fall_back(op, graph) and _find(op, HOST_DEVICE, graph, arguments_of(op, graph))


def _find(op: LoweredOp, device: str, graph: Graph, arguments: Arguments) -> bool:
    choices, target = signature_of(op).choices, graph.kernel_target
    choice = choices.get(device) or choices.get((device, target.n_threads, arguments))
    if choice is None:
        choice = _choose_for(op, device, graph, target, arguments)
    if choice is None:
        return False
    _set_kernel(op, choice)
    return True


def _set_kernel(op: LoweredOp, choice: Choice) -> None:
    op.entry, op.prepared, op.reuse, refusals, op.unread = choice
    if refusals:
        op.refusals = (*op.refusals, *refusals)
    size_bytes = op.prepared.workspace_bytes
    op.workspace = Buffer(size_bytes) if size_bytes else None


def _choose_for(
    op: LoweredOp,
    device: str,
    graph: Graph,
    target: Target,
    arguments: Arguments,
    candidates: Sequence[KernelEntry] | None = None,
) -> Choice | None:
    """Return the choice, shared by equal operators, for these threads and arguments.

    The choice is the first kernel that does not refuse, among `candidates` if they are given.
    Raises OutOfMemoryError if a kernel runs out of memory, since other kernels need memory, too.
    """
    signature = signature_of(op)
    key = (device, target.n_threads, arguments)
    choice = signature.choices.get(key)
    if choice is not None:
        return choice
    if candidates is None:
        candidates = target.candidates(op.type, device, signature.dtype)
    depends = False  # on more than the signature
    refusals: list[tuple[KernelEntry, str]] = []
    for entry in candidates:
        reason = find_exclusion(entry, op, signature, target)
        if reason is None:
            depends = depends or entry.takes_prepare
            # Running out of memory ends the search: BLAS and OpenMP, which the next kernel may
            # call, kill the process if they cannot allocate.
            prepared = _prepare(entry, op, device, graph, target, arguments)
            if not isinstance(prepared, Refuse):
                unread = arguments.unread if entry.takes_prepare else ()
                choice = signature.choose(entry, prepared, tuple(refusals), unread)
                pinned = target.context.pins.get(ANY, entry.library)
                target.chosen_kernels[entry] = pinned != entry.library
                signature.choices[key if depends else device] = choice
                return choice
            reason = REFUSED + prepared.reason
        refusals.append((entry, reason))
    op.refusals = (*op.refusals, *refusals)
    return None


def find_exclusion(
    entry: KernelEntry, op: LoweredOp, signature: Signature, target: Target
) -> str | None:
    """Return why a kernel is excluded without preparing it, or None."""
    if entry.is_native and op.definition.numbers and not is_float(signature.dtype):
        number = find_inexact([op.attrs.get(name) for name in op.definition.numbers])
        if number is not None:
            return f"{REFUSED}it reads numbers as doubles, and no double equals {number}"
    fault = find_load_failure(entry, target.context)
    if fault is None and target.deterministic and not entry.deterministic:
        return NOT_DETERMINISTIC
    return fault


def _key_of(
    entry: KernelEntry, signature: Signature, device: str, target: Target, arguments: Arguments
) -> tuple[Any, ...]:
    """Return everything that the prepared kernel depends on."""
    key: tuple[Any, ...] = (entry, signature.attrs_key)  # a function is prepared for any shape
    if entry.takes_prepare:
        metas = (signature.inputs, signature.outputs)
        # A prepared kernel may own objects of one device, such as a loaded module.
        opened = opened_device(device, target)
        # A forked process lacks the threads that kernels were prepared for.
        count = (target.n_threads, target.deterministic, is_forked())
        return (*key, *metas, opened, arguments, count, target.options)
    if device != HOST_DEVICE:
        return (*key, opened_device(device, target))
    return key


def _prepare(
    entry: KernelEntry,
    op: LoweredOp,
    device: str,
    graph: Graph,
    target: Target,
    arguments: Arguments,
) -> Prepared | Refuse:
    """Return a prepared kernel or its refusal; caches both, but no out-of-memory errors."""
    key = _key_of(entry, signature_of(op), device, target, arguments)
    cached = find_prepared(target.context, key)
    if cached is not None:
        return cached
    begin = time.perf_counter()
    deferred: list[Any] = []
    prepared = prepare_kernel(entry, op, device, arguments, target, deferred)
    graph.prepare_s += time.perf_counter() - begin
    if deferred and not isinstance(prepared, Refuse):
        again = partial(prepare_again, entry, key, device, arguments, target)
        graph.unfinished[prepared] = deferred, again
    else:
        remember(target.context, key, prepared)
    return prepared


def _add_copies(graph: Graph) -> None:
    """Insert copies around operators that run on the host instead of the plan's device."""
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
    """Make an operator write to the host, in place if it must, and copy results to the device."""
    aliased = dict(op.definition.alias_slots)
    slots = []
    for position, values in enumerate(op.outputs):
        moved = [_on_host(value) for value in values]
        if position in aliased:
            for here, source in zip(moved, op.inputs[aliased[position]], strict=True):
                here.buffer = source.buffer
                here.buffer.is_shared = True
        for here, there in zip(moved, values, strict=True):
            here.op = op
            ops.append(copy_op(here, there, op.index))
        slots.append(tuple(moved))
    op.outputs = tuple(slots)


def _on_host(value: Value) -> Value:
    copy = new_value(value.name, value.meta)
    copy.buffer.device = HOST_DEVICE
    return copy
