"""Operators that copy the bytes of a buffer on the device."""

from __future__ import annotations

from opwright.kernel import PrepareContext
from opwright_opencl.work import Kernel, Work, first_output


def _move(ctx: PrepareContext, work: Work) -> None:
    work.move("x", "out", first_output(ctx))


MOVE = Kernel(_move)
