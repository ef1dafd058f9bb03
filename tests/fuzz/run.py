"""Runs seeded cases of every target in child processes, and stores each failing case as a file.

    make fuzz                          two minutes for all targets
    make fuzz ARGS='--counted'         a fixed number of cases per target, without a time limit
    make fuzz HOURS=8                  a night
    make fuzz ARGS='calls programs'    some targets; also --seed 7, --seconds 60, --jobs 2
    make fuzz SANITIZE=1               native code built with AddressSanitizer and UBSan

A case depends only on target, seed and index. Each child process runs thousands of cases under
supervision: it must not be killed by a signal, need more than ten seconds for a case, or grow by
more than 1 GB.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
sys.path.insert(0, str(HERE))

import sanitized  # noqa: E402 - in this folder
from watch import HANG_S, Ending, watch_worker  # noqa: E402
from worker import Job  # noqa: E402


class Amount(NamedTuple):
    """How much a target is fuzzed; fast targets that reach the most code get the most time.

    Attributes
    ----------
    share : int
        The share of the time.
    cases : int
        The number of cases per seed in runs with ``--counted``.
    """

    share: int
    cases: int


TARGETS = {
    "calls": Amount(6, 2000),
    "appended": Amount(3, 1000),
    "gradients": Amount(4, 1000),
    "programs": Amount(3, 500),
    "training": Amount(3, 200),
    "files": Amount(1, 200),
    "locks": Amount(1, 500),
    "train_states": Amount(1, 100),
    "messages": Amount(1, 1000),
    "writers": Amount(1, 30),
    "plugin_table": Amount(1, 500),
    "onnx_files": Amount(3, 500),
}
PACKAGES = {"onnx_files": "onnx"}
"""The package that a target requires."""

COUNTED_SEEDS = 3
"""The number of seeds in counted runs, so that C++, Python and two threads are covered."""
CASES_A_CHILD = {"plugin_table": 2000}  # opened libraries stay mapped
MOST_CASES = 200_000
MOST_SECONDS = 120.0


@dataclass
class Tally:
    """The result of one target."""

    cases: int = 0
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    files: list[Path] = field(default_factory=list)


class Fuzzer:
    """Runs batches and collects their findings."""

    def __init__(self, args: argparse.Namespace, folder: Path) -> None:
        self._args = args
        self._folder = folder
        self._python, self._extra, self._slowness = sys.executable, {}, 1.0
        if args.sanitize:
            self._python, self._extra = sanitized.prepare()
            self._slowness = sanitized.SLOWNESS
        self.tallies = {target: Tally() for target in args.targets}

    def run(self) -> None:
        """Run each target for its number of cases or its share of the time."""
        with ThreadPoolExecutor(self._args.jobs) as pool:
            if self._args.counted:
                self._run_counted(pool)
            else:
                self._run_timed(pool)

    def _run_counted(self, pool: ThreadPoolExecutor) -> None:
        seeds = range(self._args.seed, self._args.seed + COUNTED_SEEDS)
        begun = {
            target: [pool.submit(self._fill, target, s, inf, TARGETS[target].cases) for s in seeds]
            for target in self._args.targets
        }
        for target, fills in begun.items():
            for fill in fills:
                fill.result()
            self._report(target)

    def _run_timed(self, pool: ThreadPoolExecutor) -> None:
        """Run all targets in several rounds, each with separate seeds."""
        rounds = max(1, round(self._args.seconds / MOST_SECONDS / len(self._args.targets)))
        total = sum(TARGETS[target].share for target in self._args.targets)
        for number in range(rounds):
            seed = self._args.seed + number * self._args.jobs
            for target in self._args.targets:
                share = self._args.seconds * TARGETS[target].share / total / rounds
                seeds = range(seed, seed + self._args.jobs)
                list(pool.map(lambda s, t=target, d=share: self._fill(t, s, d), seeds))
                self._report(target)

    def _fill(self, target: str, seed: int, seconds: float, cases: float = inf) -> None:
        """Run cases of one seed until time or cases run out; restart the child after a crash."""
        begin, start = 0, time.monotonic()
        while begin < cases and (left := start + seconds - time.monotonic()) > 0:
            end = int(min(begin + CASES_A_CHILD.get(target, MOST_CASES), cases))
            ending = self._run_batch(target, seed, begin, end, left)
            tally = self.tallies[target]
            tally.cases += ending.done
            if ending.index < 0:
                begin += max(ending.done, 1)
            else:
                begin = ending.index + 1
            if ending.reason:
                self._keep(target, seed, ending.index, ending.reason, ending.text)
        self.tallies[target].seconds += time.monotonic() - start

    def _run_batch(self, target: str, seed: int, begin: int, end: int, left: float) -> Ending:
        name = f"{target}_{seed}_{begin}"
        job = Job(
            target,
            seed,
            begin,
            end,
            left,
            str(self._folder / f"{name}.progress"),
            str(self._folder / f"{name}.found"),
        )
        hang_s = HANG_S * self._slowness
        ending = watch_worker(job, self._python, self._environ(), hang_s)
        for fault in _read_lines(Path(job.found)):
            text = fault.get("traceback", "")
            self._keep(target, seed, fault["index"], fault["fault"], text, fault["signature"])
        return ending

    def _environ(self) -> dict[str, str]:
        return {**os.environ, "TMPDIR": str(self._folder), **self._extra}

    def _keep(
        self, target: str, seed: int, index: int, reason: str, text: str, signature: str = ""
    ) -> None:
        """Write the first case of each kind of fault into the corpus."""
        signature = signature or reason
        tally = self.tallies[target]
        tally.faults[signature] += 1
        if tally.faults[signature] > 1:
            return
        print(f"\n{target}, seed {seed}, index {index}: {reason}\n{text}", flush=True)
        if index < 0:
            return
        path = self._args.corpus / target / f"{seed}_{index}.json"
        job = Job(target, seed, index, index + 1, 0, "", str(path))
        command = [self._python, str(HERE / "worker.py"), "record", job.to_json()]
        subprocess.run(command, check=True, env=self._environ())
        tally.files.append(path)
        print(f"kept as {path}", flush=True)

    def _report(self, target: str) -> None:
        tally = self.tallies[target]
        rate = tally.cases / tally.seconds if tally.seconds else 0
        print(
            f"{target}: {tally.cases} cases, {rate:.0f} a second, "
            f"{sum(tally.faults.values())} faults of {len(tally.faults)} kinds",
            flush=True,
        )


def _read_lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def parse_args(argv: list[str]) -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", help=", ".join(TARGETS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument(
        "--counted", action="store_true", help="the same cases each time, on every machine"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--corpus", type=Path, default=CORPUS)
    parser.add_argument("--sanitize", action="store_true", help="with ASan and UBSan")
    args = parser.parse_args(argv)
    args.targets = args.targets or _installed()
    unknown = sorted(set(args.targets) - set(TARGETS))
    if unknown:
        parser.error(f"unknown target {unknown[0]!r}; there are: {', '.join(TARGETS)}")
    return args


def _installed() -> list[str]:
    """Return the targets whose packages are installed; print the other targets."""
    lacking = [t for t, package in PACKAGES.items() if importlib.util.find_spec(package) is None]
    for target in lacking:
        print(f"{target}: skipped, {PACKAGES[target]} is not installed; run make fuzz-onnx")
    return [target for target in TARGETS if target not in lacking]


def main(argv: list[str]) -> int:
    """Run the fuzzer; return 1 if it found a fault."""
    args = parse_args(argv)
    place = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="opwright-fuzz-", dir=place))
    try:
        fuzzer = Fuzzer(args, folder)
        fuzzer.run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    cases = sum(tally.cases for tally in fuzzer.tallies.values())
    kinds = sum(len(tally.faults) for tally in fuzzer.tallies.values())
    print(f"{cases} cases, {kinds} kinds of faults")
    return 1 if kinds else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
