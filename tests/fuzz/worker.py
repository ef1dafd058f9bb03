"""Runs the cases of one target in this process; it ends early only if a case crashes it.

``worker.py run JOB`` runs cases, ``worker.py record JOB`` writes a case to a file without running
it, and ``worker.py replay FILE...`` runs recorded cases. A job is JSON; see `Job`.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import json
import mmap
import os
import random
import resource
import struct
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "std" / "operators")]
sys.path.append(str(HERE.parent / "support"))  # acme_operators

from outcomes import find_fault, signature_of  # noqa: E402 - in this folder
from recorded import read_case, write_case  # noqa: E402

PROGRESS = struct.Struct("=qqd")
"""The current case, the number of completed cases, and the start time of the current case."""

GROWTH_BYTES = 1 << 30


@dataclass
class Job:
    """The arguments of a worker.

    Attributes
    ----------
    target, seed : str, int
        Whose cases; they and the index decide each of them.
    begin, end : int
        The indices.
    seconds : float
        The time after which no further case begins.
    progress : str
        The file to which progress is written.
    found : str
        The file to which lines about faults are appended.
    """

    target: str
    seed: int
    begin: int
    end: int
    seconds: float
    progress: str
    found: str

    def to_json(self) -> str:
        """Return the job as a command-line argument of this script."""
        return json.dumps(asdict(self))


def setting_of(seed: int) -> dict[str, Any]:
    """Return the settings for all cases of a seed: number of threads and kernel library."""
    return {"threads": 2 if seed % 4 == 3 else 1, "library": "numpy" if seed % 3 == 2 else "*"}


@contextlib.contextmanager
def set_up(setting: dict[str, Any]) -> Iterator[None]:
    """Set the number of threads, and use the kernel library within a ``with`` block."""
    import opwright as ow

    ow.set_num_threads(setting["threads"])
    context = ow.current_context()
    if setting["library"] != "*":
        context = context.with_pins({"*": setting["library"]})
    with ow.context_guard(context):
        yield


def draw(target: Any, seed: int, index: int, rng: random.Random) -> Any:
    """Return one case."""
    rng.seed(seed << 48 | index)
    return target.draw(rng)


def is_sanitized() -> bool:
    """Return whether this process runs with AddressSanitizer."""
    return "libasan" in os.environ.get("LD_PRELOAD", "")


def limit_memory() -> None:
    """Make allocations beyond the bound fail, as if the machine had no more memory."""
    if is_sanitized():
        return  # the shadow memory alone is larger; options bound single allocations
    used = next(
        int(line.split()[1]) << 10
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmData")
    )
    limit = used + GROWTH_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def peak_bytes() -> int:
    """Return the peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def run(job: Job) -> int:
    """Run the cases of a job."""
    target = importlib.import_module(f"targets.{job.target}")
    rng = random.Random(0)
    with (
        open(job.progress, "r+b") as file,
        mmap.mmap(file.fileno(), PROGRESS.size) as cell,
        set_up(setting_of(job.seed)),
    ):
        warm_up(target)
        limit_memory()
        before = peak_bytes()
        stop = time.monotonic() + job.seconds
        done = 0
        for index in range(job.begin, job.end):
            now = time.monotonic()
            if now > stop:
                break
            PROGRESS.pack_into(cell, 0, index, done, now)
            try:
                case = draw(target, job.seed, index, rng)
            except MemoryError:  # earlier cases keep too much memory; another child continues
                break
            fault = find_fault_of(target, case)
            grew = peak_bytes() - before > GROWTH_BYTES
            if grew:
                fault = {"signature": "growth", "fault": "more than 1 GB of growth"}
            if fault is not None:
                note(job, index, fault)
            done += 1
            if grew:
                break  # the next case would also be blamed
        PROGRESS.pack_into(cell, 0, -1, done, time.monotonic())
    return 0


def warm_up(target: Any) -> None:
    """Run a few cases that are not part of the job, so caches do not count as growth."""
    rng = random.Random(0)
    for index in range(getattr(target, "N_WARM_UP", 20)):
        find_fault_of(target, draw(target, 0, index, rng))


def find_fault_of(target: Any, case: Any) -> dict[str, str] | None:
    """Run a case; return the fault in its outcome, or None."""
    try:
        target.run(case)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - the cause is examined below
        fault = find_fault(error)
        if fault is None:
            return None
        lines = traceback.format_exception(error)
        return {
            "signature": signature_of(error, fault),
            "fault": fault,
            "traceback": "".join(lines)[-6000:],
        }
    return None


def note(job: Job, index: int, fault: dict[str, str]) -> None:
    """Append a line about a fault."""
    with open(job.found, "a", encoding="utf-8") as file:
        file.write(json.dumps({"index": index, **fault}) + "\n")


def record(job: Job) -> int:
    """Write the first case of a job to the file that the job names, without running it."""
    target = importlib.import_module(f"targets.{job.target}")
    with set_up(setting_of(job.seed)):
        case = draw(target, job.seed, job.begin, random.Random(0))
    reason = f"seed {job.seed}, index {job.begin}"
    write_case(Path(job.found), job.target, setting_of(job.seed), case, reason)
    return 0


def replay(paths: list[str]) -> int:
    """Run recorded cases in order; print the name of each case, then its fault if it has one."""
    status = 0
    for path in paths:
        print(Path(path).name, flush=True)
        name, setting, case = read_case(Path(path))
        target = importlib.import_module(f"targets.{name}")
        with set_up(setting):
            fault = find_fault_of(target, case)
        if fault is not None:
            print(f"FAULT {fault['fault']}\n{fault.get('traceback', '')}", flush=True)
            status = 1
    return status


def main() -> int:
    """Run the command given by the script arguments."""
    if not is_sanitized():  # which reports crashes in more detail
        faulthandler.enable()
    kind, *rest = sys.argv[1:]
    if kind == "replay":
        limit_memory()
        return replay(rest)
    job = Job(**json.loads(rest[0]))
    return run(job) if kind == "run" else record(job)


if __name__ == "__main__":
    raise SystemExit(main())
