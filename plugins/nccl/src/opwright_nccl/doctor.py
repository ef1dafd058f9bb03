"""The section of ``opwright doctor`` about NCCL."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from opwright.commands import Examination
from opwright_dist import DistError
from opwright_nccl.library import INSTALL, ask, call, find_library, open_library

_SELF_TEST: Final = ("run", "-n", "2", "-m", "opwright_dist.self_test", "cuda")
_LAUNCH: Final = "import sys; from opwright_nccl.launcher import main; sys.exit(main(sys.argv[1:]))"


def examine() -> Examination:
    """Find the library, its version and an id, and connect two GPUs if there are."""
    facts = {}
    try:
        find_library()
    except DistError as error:  # its wheel is optional
        return Examination({"library": str(error)})
    try:
        path = open_library()
        facts["library"] = f"NCCL {call('version')}, {path}"
    except DistError as error:
        return Examination(facts, str(error), INSTALL)
    n = _count_gpus()
    if n == 0:
        facts["self-test"] = "not run: there is no /dev/nvidia0, which NVIDIA's driver makes"
        return Examination(facts)
    if n == 1:
        answer, text = ask("try")
        facts["self-test"] = "one GPU connects with itself; another one is needed for more"
        return Examination(
            facts, f"one GPU must connect with itself, got: {text}" if answer else ""
        )
    return _test(facts)


def _count_gpus() -> int:
    """Return the number of visible GPUs, without using the driver before the self-test."""
    return sum(path.name[6:].isdecimal() for path in Path("/dev").glob("nvidia*"))


def _test(facts: dict[str, str]) -> Examination:
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _LAUNCH, *_SELF_TEST], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        reason = f"its self-test failed:\n{done.stdout}{done.stderr}"
        return Examination(facts, reason, "NCCL_DEBUG=INFO opwright doctor says what NCCL does")
    result = done.stdout.splitlines()[0].partition("] ")[2]
    facts["self-test"] = f"{result}, {time.perf_counter() - began:.1f} s"
    return Examination(facts)
