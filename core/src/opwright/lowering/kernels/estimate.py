"""How long a step takes: what its kernel says, else what moving its bytes would cost at least."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from opwright.lowering.graph.making import signature_of
from opwright.lowering.graph.values import LoweredOp
from opwright.registry import HOST_DEVICE

BYTES_PER_NS: Final = 10
"""What one core moves from and to memory: 10 GB/s."""

STEP_NS: Final = 50
"""The least that a step with data takes, whatever its size."""

LAUNCH_NS: Final = 5_000
"""Handing work to another device, which takes its own time: a launch costs some microseconds."""

SHORT_PLAN_NS: Final = 80_000
"""Work below which a plan runs on one thread. Threads meet at the start and the end of every step:
a training step that takes 37 µs on one thread took 119 µs on two, 82 µs for their meetings alone
(docs/decisions/0013-threads.md)."""


def estimate_ns(op: LoweredOp, device: str) -> int:
    """Return how long one run of an operator's kernel takes on the plan's `device`.

    Of one that may wait for another process, only what it says itself: a wait is no work.
    """
    told: int = op.prepared.estimate_ns
    if told or (op.entry is not None and op.entry.blocks):
        return told
    if (op.device or device) != HOST_DEVICE:
        return LAUNCH_NS
    return signature_of(op).moved_bytes // BYTES_PER_NS + STEP_NS


def is_short(ops: Iterable[LoweredOp], n_threads: int = 2) -> bool:
    """Tell whether operators that run on the host are too little work for several threads.

    `n_threads` is how many the estimates are for, where the machine may have as few as two.
    """
    total = 0
    for op in ops:
        total += estimate_ns(op, HOST_DEVICE) * n_threads
        if total >= 2 * SHORT_PLAN_NS:
            return False
    return True
