"""Kills savers at random moments while readers run; each load must return one complete save.

``python tests/core/program/files/kill_campaign.py --kills 10000`` prints a line of counts, and
exits with status 1 if a check fails. The tests run it with a few kills; ``OPWRIGHT_SAVING_KILLS``
sets their number.
"""

from __future__ import annotations

import argparse
import ctypes
import mmap
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[2] / "support")]

import numpy as np  # noqa: E402
import saved_model  # noqa: E402

import toy_operators  # noqa: E402
from opwright import (  # noqa: E402
    context_guard,
    load,
    save,
)

WIDTHS = (3, 2000)
SAVES_PER_LIFE = 400
KEEP = 2


class Outcome(NamedTuple):
    """The counts of a campaign, and its findings."""

    kills: int
    saves: int
    loads: int
    findings: list[str]


def check_whole(folder: Path) -> int:
    """Load a folder and return its saved value; raise AssertionError if two saves are mixed."""
    scope = saved_model.ArrayScope()
    loaded = load(folder, scope)
    arrays = scope.arrays()
    value = int(arrays["count"])
    width = WIDTHS[value % len(WIDTHS)]
    assert loaded.notes == {"value": value}, f"notes {loaded.notes} with arrays of {value}"
    assert loaded.program.global_block().var("w").shape == (4, width)
    np.testing.assert_array_equal(arrays["w"], np.full((4, width), value, np.float32))
    np.testing.assert_array_equal(arrays["@step"], [value])
    return value


def save_value(folder: Path, value: int) -> None:
    width = WIDTHS[value % len(WIDTHS)]
    program, scope = saved_model.build(width), saved_model.filled(value, width)
    save(folder, program, scope, keep=KEEP, notes={"value": value})


class Campaign:
    """Runs processes that save to one folder and load it, and kills savers.

    Parameters
    ----------
    folder : Path
        The folder to which they save.
    savers, readers : int
        The numbers of concurrent processes.
    seed : int
        The seed for the times of the kills.
    """

    def __init__(self, folder: Path, savers: int = 2, readers: int = 4, seed: int = 0) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.savers, self.readers = savers, readers
        self.lives = 0
        self.shared = mmap.mmap(-1, 4096)
        # Each process has its own counter, so no lock is needed.
        self.counts = (ctypes.c_int64 * (savers + readers)).from_buffer(self.shared)

    def run(self, kills: int) -> Outcome:
        save_value(self.folder, 0)
        readers = {self._fork(self._read, index): index for index in range(self.readers)}
        savers = [self._fork(self._save, index) for index in range(self.savers)]
        findings: list[str] = []
        done = 0
        try:
            while 0 in self.counts[self.savers :] and not findings:  # until each reader has begun
                time.sleep(0.01)
                findings += [f"reader {n} failed" for pid, n in readers.items() if _ended(pid)]
            while done < kills and not findings:
                time.sleep(self.random.uniform(0.0, 0.03))
                index = self.random.randrange(self.savers)
                status = _kill(savers[index])
                if status != -signal.SIGKILL:
                    findings.append(f"a saver ended by itself, with status {status}")
                done += 1
                savers[index] = self._fork(self._save, index)
                findings += [f"reader {n} failed" for pid, n in readers.items() if _ended(pid)]
        finally:
            for pid in [*savers, *readers]:
                _kill(pid)
        findings += self._check_end()
        saves, loads = sum(self.counts[: self.savers]), sum(self.counts[self.savers :])
        return Outcome(done, saves, loads, findings)

    def _check_end(self) -> list[str]:
        """Check that another save removes the temporary files of killed saves."""
        check_whole(self.folder)
        save_value(self.folder, 1)
        names = {path.name for path in self.folder.iterdir()}
        inner = {path.name for path in (self.folder / "generations").iterdir()}
        found = [] if check_whole(self.folder) == 1 else ["the last save is not what is loaded"]
        if names != {"generations", "latest", "params.safetensors", "program.pb"}:
            found.append(f"left over: {sorted(names)}")
        if len(inner) != KEEP or any(name.startswith(".") for name in inner):
            found.append(f"left over: {sorted(inner)}")
        return found

    def _fork(self, work: Any, index: int) -> int:
        self.lives += 1
        pid = os.fork()
        if pid:
            return pid
        try:
            work(index)
        except BaseException:  # noqa: BLE001  # printed, and the process ends
            traceback.print_exc()
        os._exit(1)

    def _save(self, index: int) -> None:
        first = self.lives * SAVES_PER_LIFE
        for number in range(SAVES_PER_LIFE):
            save_value(self.folder, first + number)
            self.counts[index] += 1
        signal.pause()

    def _read(self, index: int) -> None:
        newest: dict[int, int] = {}
        while True:
            value = check_whole(self.folder)
            life = value // SAVES_PER_LIFE
            assert value >= newest.get(life, 0), f"{value} after {newest[life]}: went back"
            newest[life] = value
            self.counts[self.savers + index] += 1


def _kill(pid: int) -> int:
    try:
        os.kill(pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except (ProcessLookupError, ChildProcessError):
        return 0


def _ended(pid: int) -> bool:
    return os.waitpid(pid, os.WNOHANG)[0] != 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--savers", type=int, default=2)
    parser.add_argument("--readers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, context_guard(toy_operators.context()):
        campaign = Campaign(Path(folder) / "model", args.savers, args.readers, args.seed)
        outcome = campaign.run(args.kills)
    for finding in outcome.findings:
        print(finding)
    print(f"{outcome.kills} kills, {outcome.saves} saves, {outcome.loads} loads")
    return 1 if outcome.findings else 0


if __name__ == "__main__":
    sys.exit(main())
