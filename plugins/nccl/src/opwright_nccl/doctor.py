"""The section of ``opwright doctor`` about NCCL."""

from __future__ import annotations

from pathlib import Path

from opwright.commands import Examination
from opwright_dist import DistError
from opwright_dist.launching.trial import try_launcher
from opwright_nccl.library import INSTALL, ask, call, find_library, open_library


def examine() -> Examination:
    """Find the library, its version and an id, and connect two GPUs if the machine has them."""
    facts = {}
    try:
        find_library()
    except DistError as error:  # NCCL's wheel is optional
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
    advice = "NCCL_DEBUG=INFO opwright doctor says what NCCL does"
    return try_launcher("opwright_nccl.launcher", facts, advice, "cuda")


def _count_gpus() -> int:
    """Return the number of visible GPUs, without using the driver before the self-test."""
    return sum(path.name[6:].isdecimal() for path in Path("/dev").glob("nvidia*"))
