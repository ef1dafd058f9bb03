"""Two threads may run one kernel concurrently, because it does not write shared data.

Two threads run a compiled kernel repeatedly. With a Python kernel, this would rarely interrupt the
few lines that matter, so at each line of the kernel another thread runs the whole kernel, on
different inputs.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Final

from opwright.errors import OpwrightError
from opwright.kernel import KernelEntry
from opwright_kit.testing.launch.launching import Launch, RunInput
from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.observation.observation import (
    Observation,
    choose_largest,
    find_difference,
    observe,
)
from opwright_kit.testing.observation.tracing import make_tracer
from opwright_kit.testing.results.scorecard import Finding, Skipped
from opwright_kit.testing.results.subjects import KernelSubject
from opwright_kit.testing.samples.sample import Array

RULE = "threads"
SUMMARY = "two threads that run a kernel at the same time get the same results as one thread"
SUBJECT = KernelSubject

_THREADS: Final = 4
"""More than two: if there are few processors, one must be interrupted by another."""

_SPAN_S: Final = 0.06
"""Processor time for which each thread runs a compiled kernel, enough for hundreds of runs."""

_PROCESS_SPAN_S: Final = 2 * _THREADS * _SPAN_S
"""The time limit of the whole process: if a device computes in a separate thread, the threads that
run the kernel only wait."""

_MOST_BYTES: Final = 2**20
_MOST_REPEATS: Final = 64
"""A run repeats the kernel, each time with separate outputs, as long as all outputs fit into this
size, so that little time is spent between the runs."""

_LINES: Final = 24
"""The number of lines of a Python kernel at which another thread interrupts it."""

_WAIT_S: Final = 0.2
"""How long a line waits for the other thread, which may need a lock that is held here."""

Inputs = Mapping[str, tuple[Array, ...]]
Outputs = dict[str, list[Array]]


def check(subject: KernelSubject, context: CheckContext) -> Iterator[Finding]:
    """Yield the largest sample, packed or not, if two threads that run it disturb each other."""
    observations = observe(subject, context)
    plain = [each for each in observations if not each.launch.packed]
    packed = [each for each in observations if each.launch.packed]
    for group in filter(None, (plain, packed)):
        (largest,) = choose_largest(group, 1)
        if not largest.repeats():
            raise Skipped("results differ from run to run anyway")
        other = _disturb(largest, context)
        if other is not None:
            yield largest.find(
                RULE,
                subject,
                f"two threads must not disturb each other, got {other} while another thread ran it "
                "on other inputs; keep nothing between runs in a module, a static variable or what "
                "prepare returned: ask for a workspace",
            )
            return


def _disturb(observation: Observation, context: CheckContext) -> str | None:
    """Return how the result differs while another thread runs the kernel too, or None."""
    sample, launch = observation.sample, observation.launch
    one, other = sample.inputs, sample.turned_inputs()
    try:
        alone = [launch.run(inputs=inputs).outputs for inputs in (one, other)]
    except OpwrightError:
        return None  # reversed inputs are not valid any more
    if observation.entry.is_native:
        return _run_both(_repeat(observation, context), (one, other))
    return _come_between(launch, (one, other), alone[0])


def _repeat(observation: Observation, context: CheckContext) -> Launch:
    """Return a launch that runs the kernel many times, or once if it resizes an output."""
    definition = context.context.ops.get(observation.entry.op_type)
    if definition.proto.dynamic_output:
        return observation.launch
    written = sum(a.nbytes for arrays in observation.first.outputs.values() for a in arrays)
    repeat = max(1, min(_MOST_REPEATS, _MOST_BYTES // max(written, 1)))
    launch = observation.find_like(context, repeat=repeat, apart=True)
    return launch or observation.launch


def _run_both(launch: Launch, inputs: tuple[Inputs, Inputs]) -> str | None:
    """Run a compiled kernel in threads for a while, and compare all its results."""
    faults: list[str] = []
    barrier = threading.Barrier(_THREADS)

    def work(run_input: RunInput, expected: list[bytes]) -> None:
        barrier.wait()
        end, process_end = time.thread_time() + _SPAN_S, time.process_time() + _PROCESS_SPAN_S
        while not faults and time.thread_time() < end and time.process_time() < process_end:
            try:
                same = [image.tobytes() for image in launch.run_filled(run_input)] == expected
            except Exception as error:  # noqa: BLE001 - reported by the checking thread
                faults.append(f"{type(error).__name__}: {error}")
            else:
                faults.extend([] if same else ["another result"])

    run_inputs = [launch.fill(inputs=arrays) for arrays in inputs]
    alone = [[image.tobytes() for image in launch.run_filled(each)] for each in run_inputs]
    threads = [
        threading.Thread(target=work, args=(run_inputs[i % 2], alone[i % 2]))
        for i in range(_THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return faults[0] if faults else None


def _come_between(launch: Launch, inputs: tuple[Inputs, Inputs], expected: Outputs) -> str | None:
    """Run a Python kernel, and before each of its lines run the whole kernel in another thread."""
    count = 0
    others: list[threading.Thread] = []

    def run_other() -> None:
        nonlocal count
        count += 1
        if count <= _LINES:
            thread = threading.Thread(target=_run_quietly, args=(launch, inputs[1]))
            others.append(thread)
            thread.start()
            thread.join(_WAIT_S)

    faults: list[str] = []

    def work() -> None:
        sys.settrace(make_tracer(_top_package(launch.entry), run_other))
        try:
            faults.extend(_compare(launch, inputs[0], expected))
        finally:
            sys.settrace(None)

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    for thread in others:
        thread.join()
    return faults[0] if faults else None


def _top_package(entry: KernelEntry) -> str:
    return entry.origin.partition(".")[0]


def _compare(launch: Launch, inputs: Inputs, expected: Outputs) -> list[str]:
    """Run once; return the difference from the expected results, or the error."""
    try:
        name = find_difference(expected, launch.run(inputs=inputs).outputs)
    except Exception as error:  # noqa: BLE001 - reported by the checking thread
        return [f"{type(error).__name__}: {error}"]
    return [] if name is None else [f"another {name}"]


def _run_quietly(launch: Launch, inputs: Inputs) -> None:
    try:
        launch.run(inputs=inputs)
    except Exception:  # noqa: BLE001 - the run that was interrupted shows what went wrong
        return
