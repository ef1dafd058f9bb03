"""Cases with each outcome that the fuzzer must detect, for the tests of the fuzzer."""

from __future__ import annotations

import mmap
import os
import random
import signal
from typing import Any

from opwright.errors import ShapeError

N_WARM_UP = 0
_kept: list[mmap.mmap] = []


def draw(rng: random.Random) -> dict[str, Any]:
    """Return the kind of case that the environment requests for an index, or a harmless kind."""
    number = rng.getrandbits(64)
    kind = os.environ.get("PLANTED", "")
    return {"kind": kind if number % 10 == 0 else "", "number": number}


def run(case: dict[str, Any]) -> None:
    """Produce the outcome that the case requests."""
    kind = case["kind"]
    if kind == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif kind == "hang":
        while True:
            pass
    elif kind == "growth":
        _kept.append(mmap.mmap(-1, 1100 << 20))  # shared memory, which RLIMIT_DATA does not bound
        for page in range(0, 1100 << 20, 4096):
            _kept[-1][page] = 1
    elif kind == "memory":
        bytearray(1 << 40)
    elif kind == "error":
        raise KeyError("a name")
    elif kind == "cause":
        raise ShapeError("planted: wrapped") from IndexError("tuple index out of range")
    elif kind == "refusal":
        raise ShapeError("planted: refused")
