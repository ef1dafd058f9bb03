"""Runs code of a plugin in a child process: a crash ends only the child."""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from opwright.commands import describe_exit, end_without_core

Tell = Callable[[Any], None]


class Outcome(NamedTuple):
    """How a child ended.

    Attributes
    ----------
    told : list
        The items that it reported, in order, as plain data.
    end : str
        ``"crashed with SIGSEGV"``, or ``"ended the process with exit code 3"``; empty if it
        completed.
    """

    told: list[Any]
    end: str


def run_forked(work: Callable[[Tell], None]) -> Outcome:
    """Run `work` in a copy of this process; return the items that it reported and how it ended.

    A fork has imported everything already, so it takes milliseconds, while a new process takes
    tenths of a second. `work` must not raise an error; anything that it prints is lost.
    """
    reader, writer = os.pipe()
    with warnings.catch_warnings():  # Python 3.12 warns of the idle threads of a BLAS
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        _be_child(work, writer)
    os.close(writer)
    try:
        with os.fdopen(reader, encoding="utf-8") as lines:
            told = [json.loads(line) for line in lines]
    except BaseException:  # an interrupt: a hanging child must not be left behind
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return Outcome(told, describe_exit(code) if code else "")


def _be_child(work: Callable[[Tell], None], writer: int) -> None:
    code = 1
    try:
        faulthandler.disable()
        end_without_core()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        with os.fdopen(writer, "w", buffering=1, encoding="utf-8") as lines:
            work(lambda item: print(json.dumps(item), file=lines))
        code = 0
    finally:
        os._exit(code)  # without the parent's cleanup and buffered output
