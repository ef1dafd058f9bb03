"""Makes allocations fail one at a time in a separate process; see test_low_memory.py.

The script prints one line of JSON at the end. Before each attempt, it writes the index of the
allocation, so a crash can be attributed.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from scenarios import SCENARIOS, Work

import opwright as ow
from opwright.errors import OutOfMemoryError

sys.path.insert(0, str(Path(__file__).parents[3] / "support"))
from starving import Starving, run_forked, write_stacks

MOST_FAULTS = 20


def count_allocations(work: Work, starving: Starving) -> int:
    """Return the number of allocations that the work makes."""
    starving.arm(2**60)
    work()
    return starving.disarm()


def attempt(
    work: Work, expected: list[np.ndarray], number: int, starving: Starving
) -> tuple[str, str]:
    """Do the work while one allocation fails; return its outcome and the error message."""
    starving.arm(number)
    try:
        got = work()
    except OutOfMemoryError as error:
        starving.disarm()
        return "named", str(error)
    except MemoryError:
        starving.disarm()
        return "bare", ""
    except Exception:  # noqa: BLE001 - reported as a fault
        starving.disarm()
        return "fault", traceback.format_exc()
    starving.disarm()
    wrong = describe_difference(got, expected)
    return ("fault", wrong) if wrong else ("done", "")


def find_fault(work: Work, expected: list[np.ndarray]) -> str:
    """Do the work without allocation failures; return a description of the fault, or ''."""
    try:
        got = work()
    except Exception:  # noqa: BLE001 - reported as a fault
        return f"the next call failed:\n{traceback.format_exc()}"
    wrong = describe_difference(got, expected)
    return wrong and f"in the next call, {wrong}"


def describe_difference(got: list[np.ndarray], expected: list[np.ndarray]) -> str:
    """Return how the results differ from a run without allocation failures, or '' if equal."""
    same = len(got) == len(expected) and all(
        np.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(got, expected, strict=True)
    )
    return "" if same else f"the result was {got}, not {expected}"


def try_one(
    work: Work, expected: list[np.ndarray], number: int, starving: Starving
) -> tuple[str, str]:
    """Make an attempt and then a normal call; return the outcome and an explanation."""
    outcome, text = attempt(work, expected, number, starving)
    wrong = text if outcome == "fault" else find_fault(work, expected)
    return ("fault", wrong) if wrong else (outcome, text)


def try_forked(*arguments: Any) -> tuple[str, str]:
    """Call `try_one` in a forked process, which may crash; return its outcomes."""
    result, stack = run_forked(lambda: try_one(*arguments))
    if not isinstance(result, int):
        return tuple(result)
    return ("crash", stack) if stack else ("fault", f"status {result}")


def main(name: str, least: dict[str, int], step: int, progress: str, stacks: str = "") -> None:
    """Make every `step`-th allocation of the libraries fail; see `Starving.count_from`.

    If `stacks`, a library that writes stacks, is given, each attempt runs in a forked process.
    """
    if stacks:
        ow.set_num_threads(1)  # as in a forked process
        write_stacks(Path(stacks))
    warnings.simplefilter("ignore")
    work = SCENARIOS[name]()
    for _ in range(3):
        expected = work()
    starving = Starving()
    starving.count_from(least)
    total = count_allocations(work, starving)
    numbers = range(1, total + 1, step)
    outcomes: Counter[str] = Counter()
    faults: list[Any] = []
    crashes: list[Any] = []
    attempt_once = try_forked if stacks else try_one
    gc.disable()
    with open(progress, "w") as file:
        for done, number in enumerate(numbers):
            os.pwrite(file.fileno(), b"%12d\n" % number, 0)
            outcome, text = attempt_once(work, expected, number, starving)
            outcomes[outcome] += 1
            if outcome == "fault":
                faults.append([number, text])
            if outcome == "crash":
                crashes.append([number, text])
            if len(faults) == MOST_FAULTS:
                break
            if done % 200 == 0:
                gc.collect()
    report = {"total": total, "tried": len(numbers), "faults": faults, "crashes": crashes}
    print(json.dumps({**report, **outcomes}))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
