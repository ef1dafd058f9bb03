"""Runs the implementations of a workload, which prepare once and are then timed round by round."""

from __future__ import annotations

import json
import os
import select
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workload import PEERS_VARIABLE, Workload, is_ours

SCRIPT = Path(__file__).parent / "implementation.py"
PREPARE_TIMEOUT_S = 600
ROUND_TIMEOUT_S = 120
# Disturbed repeats are dropped only if at least this many undisturbed repeats remain.
MIN_UNDISTURBED = 5


@dataclass(frozen=True)
class Settings:
    """The settings of a run.

    Attributes
    ----------
    ours, peers : str
        The Python interpreters with opwright and with the peers.
    rounds : int
        The number of rounds.
    seconds : float
        The duration of a round.
    realtime : bool
        Whether a round runs with real-time scheduling, so other work does not get its processors.
    """

    ours: str
    peers: str
    rounds: int = 5
    seconds: float = 0.3
    realtime: bool = False


@dataclass
class Result:
    """The results of one implementation.

    Attributes
    ----------
    implementation : str
        Its name.
    problem : str
        Why there are no times; empty if there are.
    is_wrong : bool
        Whether it failed, or its results differ from the other implementations.
    values : list of float
        The values that the implementation computed.
    figures : list of float
        One figure for each repeat, in the unit of the workload.
    n_disturbed : int
        The number of repeats during which the process was preempted.
    is_noisy : bool
        Whether `figures` includes these repeats, because too few others were left.
    """

    implementation: str
    problem: str = ""
    is_wrong: bool = False
    values: list[float] = field(default_factory=list)
    figures: list[float] = field(default_factory=list)
    n_disturbed: int = 0
    is_noisy: bool = False

    @property
    def median(self) -> float | None:
        """The median figure, or None."""
        return statistics.median(self.figures) if self.figures else None


class Process:
    """A process that runs an implementation and answers requests.

    Parameters
    ----------
    python : str
        The interpreter.
    file : Path
        The file of the workload.
    workload : Workload
        A workload of that file.
    implementation : str
        Its name.
    peers : str
        The interpreter with the peers, for an opwright implementation that uses their arrays.
    """

    def __init__(
        self, python: str, file: Path, workload: Workload, implementation: str, peers: str
    ) -> None:
        self.result = Result(implementation)
        self.times: list[tuple[float, bool]] = []
        self.per = 1.0
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - lives as long
        self._process = subprocess.Popen(
            [python, SCRIPT, file, workload.name, implementation],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={**os.environ, PEERS_VARIABLE: peers},
        )

    def prepare(self) -> None:
        """Wait until rounds can be requested, or the process has reported why not."""
        answer = self._read(PREPARE_TIMEOUT_S)
        if answer:
            self.per, self.result.values = answer["per"], answer["values"]

    @property
    def is_running(self) -> bool:
        """Return whether rounds can be requested."""
        return not self.result.problem

    def time_round(self, settings: Settings) -> None:
        """Request the times of one round."""
        assert self._process.stdin is not None
        command = {"seconds": settings.seconds, "realtime": settings.realtime}
        try:
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # Reading reports how the process exited.
        answer = self._read(ROUND_TIMEOUT_S)
        if answer:
            self.times += [(call_ns, disturbed) for call_ns, disturbed in answer["times"]]

    def close(self) -> None:
        """Stop the process and wait until it exits."""
        if self._log.closed:
            return
        try:
            self._process.communicate(timeout=60)  # a large process on a busy machine
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        status = self._process.returncode
        if status and not self.result.problem:
            self._fail(f"ended with status {status} behind its rounds: {self._last_words()}")
        self._log.close()

    def _read(self, timeout_s: float) -> dict[str, Any] | None:
        """Return the next answer; on failure, record the reason and return None."""
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], timeout_s)[0]:
            self._process.kill()
            return self._fail(f"no answer within {timeout_s:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            return self._fail(f"ended with status {self._process.wait()}: {self._last_words()}")
        answer: dict[str, Any] = json.loads(line)
        if "not_available" in answer:
            self.result.problem = f"not available: {answer['not_available']}"
            return None
        return self._fail(answer["failed"]) if "failed" in answer else answer

    def _fail(self, why: str) -> None:
        self.result.problem, self.result.is_wrong = f"failed: {why}", True

    def _last_words(self) -> str:
        self._log.seek(0)
        return (self._log.read().strip().splitlines() or ["it said nothing"])[-1]


class Comparison:
    """The implementations of a workload, which prepare concurrently and are timed alternately.

    Parameters
    ----------
    workload : Workload
        The workload to measure.
    file : Path
        The file that defines it.
    settings : Settings
        The settings of the run.
    names : list of str
        The names of the implementations.
    """

    def __init__(
        self, workload: Workload, file: Path, settings: Settings, names: list[str]
    ) -> None:
        self.workload, self._file, self._settings, self._names = workload, file, settings, names
        self._processes: list[Process] = []

    def start(self, one_by_one: bool = False) -> None:
        """Start to prepare the implementations; with `one_by_one`, wait for each of them."""
        for name in self._names:
            python = self._settings.ours if is_ours(name) else self._settings.peers
            process = Process(python, self._file, self.workload, name, self._settings.peers)
            self._processes.append(process)
            if one_by_one:
                process.prepare()

    def wait(self) -> None:
        """Wait until all started implementations are ready."""
        for process in self._processes:
            process.prepare()

    def finish(self) -> list[Result]:
        """Time all implementations round by round, stop them and return the results."""
        for _ in range(self._settings.rounds):
            for process in self._processes:
                if process.is_running:
                    process.time_round(self._settings)
        self.close()
        for process in self._processes:
            collect_figures(self.workload, process)
        results = [process.result for process in self._processes]
        compare_values(self.workload, results)
        return results

    def close(self) -> None:
        """Stop the implementations."""
        for process in self._processes:
            process.close()


def run(comparisons: list[Comparison], together: int) -> Iterator[tuple[Workload, list[Result]]]:
    """Run comparisons in order, and yield the results of each.

    Parameters
    ----------
    comparisons : list of Comparison
        The comparisons.
    together : int
        The number of comparisons whose implementations prepare concurrently, which is faster with
        many
        processors; 0: they prepare one by one.
    """
    for batch in in_batches(comparisons, max(1, together)):
        try:
            for comparison in batch:
                comparison.start(one_by_one=not together)
            for comparison in batch if together else ():
                comparison.wait()
            for comparison in batch:
                yield comparison.workload, comparison.finish()
        finally:
            for comparison in batch:
                comparison.close()


def in_batches(comparisons: list[Comparison], n: int) -> Iterator[list[Comparison]]:
    """Yield the comparisons in lists of at most n."""
    for first in range(0, len(comparisons), n):
        yield comparisons[first : first + n]


def collect_figures(workload: Workload, process: Process) -> None:
    """Convert times to figures; drop disturbed times if enough undisturbed times remain."""
    result = process.result
    undisturbed = [call_ns for call_ns, disturbed in process.times if not disturbed]
    result.n_disturbed = len(process.times) - len(undisturbed)
    result.is_noisy = bool(result.n_disturbed) and len(undisturbed) < MIN_UNDISTURBED
    kept = [call_ns for call_ns, _ in process.times] if result.is_noisy else undisturbed
    result.figures = [workload.figure(call_ns, process.per) for call_ns in kept]


def compare_values(workload: Workload, results: list[Result]) -> None:
    """Mark implementations whose values differ from the first peer that returned values."""
    with_values = [result for result in results if result.values]
    peers = [result for result in with_values if not is_ours(result.implementation)]
    for reference in (peers or with_values)[:1]:
        for result in with_values:
            apart = find_distance(result.values, reference.values)
            allowed = workload.tolerances.get(result.implementation, workload.tolerance)
            # The comparison is written so that NaN counts as wrong.
            if not apart <= allowed:
                result.is_wrong = True
                result.problem = (
                    f"DISAGREES with {reference.implementation} by {apart:.1e} of the largest "
                    f"value, allowed {allowed:.0e}"
                )


def find_distance(values: list[float], reference: list[float]) -> float:
    """Return the largest difference as a fraction of the largest value."""
    if len(values) != len(reference):
        return float("inf")
    scale = max(map(abs, reference)) or 1.0
    apart = [abs(a - b) / scale for a, b in zip(values, reference, strict=True)]
    return float("nan") if any(a != a for a in apart) else max(apart)
