"""Estimates the time of a step, as declared by its kernel or from the bytes that it moves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from opwright.lowering.graph.making import signature_of
from opwright.lowering.graph.signature import size_bytes
from opwright.lowering.graph.values import LoweredOp
from opwright.registry import HOST_DEVICE

if TYPE_CHECKING:
    from opwright.lowering.request import LowerRequest, Target

BYTES_PER_NS: Final = 10
"""Memory bandwidth of one core: 10 GB/s."""

STEP_NS: Final = 50
"""The minimum time of a step with data of any size."""

LAUNCH_NS: Final = 5_000
"""Time to launch work on another device; the work itself does not count."""

SHORT_PLAN_NS: Final = 20_000
"""Work below which a plan runs on one thread. Awake threads synchronize in about a microsecond
at each shared step; the runtime does not wake threads for a short plan
(docs/decisions/0111-a-brief-plan-wakes-no-threads.md)."""


def estimate_ns(op: LoweredOp, device: str) -> int:
    """Estimate the time, in ns, of one run of an operator's kernel on the plan's `device`.

    For a kernel that may wait for another process, only the declared time counts, not the wait.
    """
    declared: int = op.prepared.estimate_ns
    if declared or (op.entry is not None and op.entry.blocks):
        return declared
    if (op.device or device) != HOST_DEVICE:
        return LAUNCH_NS
    return signature_of(op).moved_bytes // BYTES_PER_NS + STEP_NS


def first_target(request: LowerRequest) -> Target:
    """Return the target for which kernels are first chosen: one thread if a plan seems short.

    A plan seems short if the last plan of its callable was short. A callable's first plan is judged
    by its bytes, as if each operator read all given values and one operator also the scope. The
    estimates of the kernels decide later, so a wrong guess costs only time.
    """
    target, n_ops = request.target, len(request.ops)
    if target.n_threads == 1 or not target.device.is_host:
        return target
    if target.last_short and not target.deterministic:
        return target.with_threads(1) if target.last_short[0] else target
    given = sum(map(size_bytes, request.given.metas.values()))
    kept = sum(map(size_bytes, request.persistables.metas.values()))
    estimate = n_ops * STEP_NS + (n_ops * given + kept) // BYTES_PER_NS
    return target.with_threads(1) if estimate < SHORT_PLAN_NS else target


def is_short(ops: Iterable[LoweredOp], n_threads: int = 2) -> bool:
    """Whether the work of the operators on the host is too short for several threads.

    Kernel estimates apply to `n_threads`; their sum is judged as if two threads ran the plan.
    """
    total = 0
    for op in ops:
        total += estimate_ns(op, HOST_DEVICE) * n_threads
        if total >= 2 * SHORT_PLAN_NS:
            return False
    return True
