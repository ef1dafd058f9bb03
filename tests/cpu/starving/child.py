"""Fails allocations one by one, in a process of its own: see test_want_of_memory.py.

Prints one line of JSON at the end. Before each attempt it writes down which allocation comes next,
so that a crash has a number.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
import traceback
import warnings
from collections import Counter
from typing import Any

import numpy as np
from scenarios import SCENARIOS, Work

from opwright.errors import OutOfMemoryError

MOST_FAULTS = 20
_LIBRARY = ctypes.CDLL(None)
_LIBRARY.starve_arm.argtypes = [ctypes.c_long]
_LIBRARY.starve_arm.restype = None
_LIBRARY.starve_disarm.restype = ctypes.c_long
_LIBRARY.starve_count_from.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_size_t]
_LIBRARY.starve_count_from.restype = None


def count_from(least: dict[str, int]) -> None:
    """Count the allocations of libraries whose paths contain one of the names, from a size on."""
    with open("/proc/self/maps") as file:
        for line in file:
            addresses, rights, *_, path = line.split()
            found = next((name for name in least if name in path), None)
            if "x" in rights and found is not None:
                begin, _, end = addresses.partition("-")
                _LIBRARY.starve_count_from(int(begin, 16), int(end, 16), least[found])


def count_allocations(work: Work) -> int:
    """Return how many allocations the work makes."""
    _LIBRARY.starve_arm(2**60)
    work()
    return int(_LIBRARY.starve_disarm())


def attempt(work: Work, number: int) -> tuple[str, str]:
    """Do the work while one allocation fails; return what came of it, and the text of an error."""
    _LIBRARY.starve_arm(number)
    try:
        work()
    except OutOfMemoryError as error:
        _LIBRARY.starve_disarm()
        return "named", str(error)
    except MemoryError:
        _LIBRARY.starve_disarm()
        return "bare", ""
    except Exception:  # noqa: BLE001 - reported as a fault
        _LIBRARY.starve_disarm()
        return "fault", traceback.format_exc()
    _LIBRARY.starve_disarm()
    return "done", ""


def find_fault(work: Work, expected: list[np.ndarray]) -> str:
    """Do the work with all memory; return what is wrong with it, or nothing."""
    try:
        got = work()
    except Exception:  # noqa: BLE001 - reported as a fault
        return f"the next call failed:\n{traceback.format_exc()}"
    same = len(got) == len(expected) and all(
        np.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(got, expected, strict=True)
    )
    return "" if same else f"the next call returned {got}, not {expected}"


def main(name: str, least: dict[str, int], step: int, progress: str) -> None:
    """Fail each `step`-th allocation of the libraries; see `count_from`."""
    warnings.simplefilter("ignore")  # another kernel that serves says so, in most attempts
    work = SCENARIOS[name]()
    for _ in range(3):
        expected = work()
    count_from(least)
    total = count_allocations(work)
    numbers = range(1, total + 1, step)
    outcomes: Counter[str] = Counter()
    faults: list[Any] = []
    gc.disable()
    with open(progress, "w") as file:
        for done, number in enumerate(numbers):
            os.pwrite(file.fileno(), b"%12d\n" % number, 0)
            outcome, text = attempt(work, number)
            outcomes[outcome] += 1
            wrong = text if outcome == "fault" else find_fault(work, expected)
            if wrong:
                faults.append([number, wrong])
            if len(faults) == MOST_FAULTS:
                break
            if done % 200 == 0:
                gc.collect()
    print(json.dumps({"total": total, "tried": len(numbers), **outcomes, "faults": faults}))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
