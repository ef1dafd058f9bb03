"""Untrusted programs, with changed structure or bytes, are read, written and run."""

from __future__ import annotations

import contextlib
import random
import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
from descriptions import change_bytes, change_program
from models import forward_programs
from mutations import SMALL, draw_array

import opwright as ow
from opwright.errors import OpwrightError
from opwright.framework_pb2 import ProgramDesc

MAX_BYTES = 1 << 20
LOOP_S = 2.0
"""The time after which a loop is interrupted, since a changed loop can be endless."""


def draw(rng: random.Random) -> dict[str, Any]:
    """Return the bytes of a program, and lengths for its unknown dimensions."""
    return draw_from(rng, forward_programs())


def draw_from(rng: random.Random, programs: tuple[bytes, ...]) -> dict[str, Any]:
    """Return a copy of one of the programs, with changes."""
    data = rng.choice(programs)
    if rng.random() < 0.1:
        data = change_bytes(rng, data)
    else:
        data = change_program(rng, data, rng.choice((1, 1, 1, 2, 2, 3, 5)))
    return {"program": data, "lengths": [rng.choice(SMALL) for _ in range(4)]}


def run(case: dict[str, Any]) -> None:
    """Read the program, print it and run it twice, until the first error."""
    read_and_run(case, times=1)


def read_and_run(case: dict[str, Any], times: int) -> None:
    """Read the program of a case, inspect it in every way, and run it several times."""
    program = ow.Program.from_proto(case["program"])
    message = ProgramDesc.FromString(case["program"])  # protobuf can read whatever we can read
    str(program)
    with contextlib.suppress(OpwrightError):  # a run is attempted even if these fail
        program.clone().infer_shapes()
        program.prune(list(message.fetches))
    block = program.global_block()
    scope, feeds = ow.Scope(), {}
    for name, variable in block.vars.items():
        array = _array_of(variable, case["lengths"])
        if array is None:
            continue
        if variable.persistable:
            scope.var(name).set(array)
        elif variable.is_data or name in message.feeds:
            feeds[name] = array
    compiled = ow.Network(block).compile(list(feeds), list(message.fetches), scope=scope)
    has_loops = any(_is_loop(op) for part in program.blocks for op in part.ops)
    with _interrupted() if has_loops else contextlib.nullcontext():
        for _ in range(times):
            compiled(**feeds)


def _is_loop(op: Any) -> bool:
    return op.type in ("scan", "while_loop")


@contextlib.contextmanager
def _interrupted() -> Iterator[None]:
    """Interrupt a block that still runs after `LOOP_S` seconds, as Ctrl-C would."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, LOOP_S)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


def _array_of(variable: Any, lengths: list[int]) -> np.ndarray | None:
    """Return an array for a variable, or None if its size would be unreasonable."""
    if variable.shape is None:
        return None
    shape = [lengths[i % 4] if dim == -1 else dim for i, dim in enumerate(variable.shape)]
    count = 1
    for dim in shape:
        count *= max(dim, 1)
    if count > MAX_BYTES // 8 or variable.dtype == "bfloat16" or len(shape) > 60:
        return None
    return draw_array(random.Random(count), variable.dtype, tuple(shape))
