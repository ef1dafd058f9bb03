"""Saves or loads while single allocations fail; see test_failed_allocations.py.

Usage: ``python starved_process.py LIBRARY NAME STEP FOLDER [WHAT]``. NAME is "save" or "load".
Every STEP-th allocation fails once, each in a separate fork, and all outcomes are printed as JSON.
WHAT names the library whose allocations are counted; by default, Python allocations are counted.
"""

from __future__ import annotations

import contextlib
import gc
import json
import linecache
import os
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import saved_model

import opwright as ow
from opwright.errors import OpwrightError
from opwright.program.serialize import program_to_bytes

sys.path.insert(0, str(Path(__file__).parents[3] / "support"))
from starving import Starving, run_forked, write_stacks

WIDTH = 3
NEVER = 2**60
WORDS = ("memory", "named", "misnamed", "done", "open", "crash", "fault")


class Outcome(NamedTuple):
    """The outcome of an attempt: a word, its explanation, and the number of allocations."""

    word: str
    text: str = ""
    total: int = 0


def filled_scope(value, width=WIDTH):
    """Return a runtime scope whose arrays are filled with `value`."""
    scope = ow.Scope()
    scope.set_all(saved_model.filled(value, width).arrays())
    return scope


def other_scope():
    """Return a scope in which `load` replaces w, creates count, and overwrites the step."""
    scope = filled_scope(-1, WIDTH + 1)
    scope.erase("count")
    return scope


def value_in(scope):
    """Return the value that all elements of all set variables share."""
    variables = [scope.var(name) for name in scope.names()]
    values = {float(item) for var in variables if var.is_set for item in var.numpy().flat}
    assert len(values) == 1, f"arrays of several models: {values}"
    return int(values.pop())


class Work:
    """A repeatable save or load that checks its invariants.

    Parameters
    ----------
    name : str
        "save" or "load".
    folder : Path
        The path of the saved model.
    """

    def __init__(self, name, folder):
        self.name = name
        self.folder = folder
        self.program = saved_model.build(WIDTH)
        block = self.program.global_block()
        block.append_op("leaky_relu", {"x": "out"}, {"out": "z"}, {"alpha": 0.25})
        block.append_op("cast", {"x": "z"}, {"out": "y"}, {"dtype": "int8"})
        self.expected = self.bytes_of(self.program)
        self.save(1, filled_scope(1))

    def bytes_of(self, program):
        return program_to_bytes(program, ["x"], ["y"])

    def save(self, value, scope):
        ow.save(self.folder, self.program, scope, "y", notes={"value": value})

    def load(self, scope):
        loaded = ow.load(self.folder, scope)
        assert self.bytes_of(loaded.program) == self.expected, "another program"
        assert loaded.program_feeds == ("x",)
        assert [fetch.name for fetch in loaded.fetches] == ["y"]
        return loaded

    def saved_value(self):
        """Load the model, check that all of it is from the same save, and return its value."""
        scope = ow.Scope()
        loaded = self.load(scope)
        value = value_in(scope)
        assert loaded.notes == {"value": value}
        return value

    def attempt(self, starving, number, value):
        """Save `value`, or load the model, while an allocation fails; return the outcome."""
        old = self.saved_value()
        scope = filled_scope(value) if self.name == "save" else other_scope()
        loaded, caught = None, None
        starving.arm(number)
        try:
            if self.name == "save":
                self.save(value, scope)
            else:
                loaded = ow.load(self.folder, scope)
        except Exception as error:  # noqa: BLE001 - distinguished below
            caught = error
        total = starving.disarm()
        outcome = Outcome("done") if caught is None else outcome_of(caught)
        del caught
        now = self.saved_value()
        if self.name == "save":
            assert now == value or (now == old and outcome.word != "done"), f"{now} was saved"
        else:
            assert now == old
            held = value_in(scope)
            assert held == old or (held == -1 and outcome.word != "done"), f"{held} was loaded"
        if loaded is not None:
            assert self.bytes_of(loaded.program) == self.expected, "another program"
        return outcome._replace(total=total)

    def check_next(self, value):
        """Check that a save without failures works and leaves no temporary files."""
        self.save(value, filled_scope(value))
        assert self.saved_value() == value
        left = [path.name for path in self.folder.rglob(".*")]
        assert not left, f"{left} in the folder"


def outcome_of(error):
    """Classify an error as out of memory, an opwright error, or an error misreported by C code."""
    if isinstance(error, MemoryError):
        return Outcome("memory")
    if isinstance(error, OpwrightError):
        return Outcome("named", f"{type(error).__name__}: {error}")
    traceback = error.__traceback__
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    place = traceback.tb_frame.f_code.co_filename, traceback.tb_lineno
    line = linecache.getline(*place).strip()
    assert not line.startswith("raise"), f"{place}: {error!r}"
    return Outcome("misnamed", f"{type(error).__name__}: {error}")


def count_open_files():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def try_one(work, starving, number):
    """Return the outcome of one attempt, which is a fault if an invariant is violated."""

    before = work.saved_value()

    def attempt():
        n_open = count_open_files()
        try:
            outcome = work.attempt(starving, number, before + 1)
            gc.collect()
            if count_open_files() > n_open:
                outcome = outcome._replace(word="open")
            work.check_next(before + 2)
        except Exception as error:  # noqa: BLE001 - a fault, and reported
            starving.disarm()
            return Outcome("fault", repr(error))
        return outcome

    result, text = run_forked(attempt)
    if not isinstance(result, int):
        return Outcome(*result)
    with contextlib.suppress(Exception):  # later steps report it
        work.check_next(before)
    if os.waitstatus_to_exitcode(result) >= 0 or not text:
        return Outcome("fault", f"status {result}: {text}")
    return Outcome("crash", text)


def prepare(work, library, what):
    """Do the one-time work of the process, and return the object that makes allocations fail."""
    for _ in range(3):
        work.check_next(work.saved_value())
    gc.collect()
    gc.freeze()
    gc.disable()
    if what:
        starving = Starving()
        starving.count_from({what: 0})
        return starving
    write_stacks(library)
    return Starving(Path(library))


def main(library, name, step, folder, what=""):
    """Make every `step`-th allocation fail, and print a report."""
    work = Work(name, Path(folder))
    starving = prepare(work, library, what)
    whole = try_one(work, starving, NEVER)
    assert whole.word == "done", whole
    report = {word: [] for word in WORDS}
    for number in range(1, whole.total + 1, step):
        outcome = try_one(work, starving, number)
        report[outcome.word].append([number, outcome.text])
    print(json.dumps({"total": whole.total, **report}))


if __name__ == "__main__":
    np.seterr(all="raise")
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), *sys.argv[4:])
