"""Runs one implementation, which prepares once and then times a round for each line on stdin.

The first round also warms up, so implementations can prepare concurrently.

``implementation.py FILE WORKLOAD IMPLEMENTATION`` reads and prints one JSON object per line. First
it prints the results of the implementation, or the reason why it cannot run. Then it reads
``{"seconds": …, "realtime": …}``
for each round and prints its times.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from workload import NotAvailableError, Timed, Workload, load_workloads

# A repeat is long enough to make the cost of the clock and of this loop negligible, and short
# enough for many repeats. It is longer if the wait for a device at its end must also be negligible.
REPEAT_NS = 2_000_000
WAITING_REPEAT_NS = 20_000_000
MIN_REPEATS, MAX_REPEATS = 5, 200
WARM_UP_S = 0.2


def time_calls(timed: Timed, number: int) -> float:
    """Return the mean time of `number` calls in ns."""
    call, wait = timed.call, timed.wait
    assert call is not None
    began = time.perf_counter_ns()
    for _ in range(number):
        call()
    if wait is not None:
        wait()
    return (time.perf_counter_ns() - began) / number


def calibrate(timed: Timed) -> int:
    """Warm up, and return the number of calls per repeat."""
    number, until = 1, time.perf_counter() + WARM_UP_S
    repeat_ns = REPEAT_NS if timed.wait is None else WAITING_REPEAT_NS
    while True:
        call_ns = time_calls(timed, number)
        if call_ns * number < repeat_ns:
            number = max(number * 2, int(number * 1.2))
        elif time.perf_counter() > until:
            return max(1, round(repeat_ns / call_ns))


def count_preemptions() -> int:
    """Return the number of times that threads of this process were preempted."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def time_round(timed: Timed, number: int, seconds: float) -> list[tuple[float, bool]]:
    """Return the time of a call in ns, and whether it was preempted, for each repeat."""
    gc.collect()
    gc.disable()
    times: list[tuple[float, bool]] = []
    until = time.perf_counter() + seconds
    time_calls(timed, number)
    while len(times) < MIN_REPEATS or (time.perf_counter() < until and len(times) < MAX_REPEATS):
        before = count_preemptions()
        call_ns = time_calls(timed, number)
        times.append((call_ns, count_preemptions() > before))
    gc.enable()
    return times


def first_line(error: Exception) -> str:
    """Return the first line of an exception's message."""
    return (str(error).strip().splitlines() or [""])[0]


def schedule(policy: int) -> None:
    """Set the scheduling policy of all threads of this process."""
    priority = os.sched_param(1 if policy == os.SCHED_RR else 0)
    for thread in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):  # the thread has exited
            os.sched_setscheduler(int(thread.name), policy, priority)


def serve(workload: Workload, implementation: str, commands: TextIO, answers: TextIO) -> None:
    """Prepare the implementation, then answer each input line with one output line."""

    def answer(**what: Any) -> None:
        answers.write(json.dumps(what) + "\n")
        answers.flush()

    try:
        timed: Timed = workload.implementations[implementation]()
    except (NotAvailableError, ModuleNotFoundError) as error:
        answer(not_available=first_line(error))
        return
    except Exception as error:
        answer(failed=f"{type(error).__name__}: {first_line(error)}")
        raise
    number = 0
    answer(per=timed.per, values=[float(value) for value in timed.values])
    for line in commands:
        command = json.loads(line)
        if command["realtime"]:
            schedule(os.SCHED_RR)
        if timed.measure:
            times = [(ns, False) for ns in timed.measure()]
        else:
            number = number or calibrate(timed)
            times = time_round(timed, number, command["seconds"])
        if command["realtime"]:
            schedule(os.SCHED_OTHER)
        answer(times=times)


def main() -> None:
    """Run the implementation named on the command line."""
    path, name, implementation = sys.argv[1:]
    # Library output must not be mixed with the replies.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    workload = next(one for one in load_workloads(Path(path)) if one.name == name)
    serve(workload, implementation, sys.stdin, answers)


if __name__ == "__main__":
    main()
