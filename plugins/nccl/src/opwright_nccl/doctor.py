"""The section of ``opwright doctor`` about NCCL."""

from __future__ import annotations

from pathlib import Path

from opwright.commands import Examination
from opwright_dist import DistError
from opwright_dist.launching.trial import try_launcher
from opwright_nccl.library import INSTALL, ask, call, find_library, open_library


def examine() -> Examination:
    """Check the library, its version and id creation, and connect two GPUs if there are two."""
    facts = {}
    try:
        find_library()
    except DistError as error:  # the NCCL wheel is optional
        return Examination({"library": str(error)})
    try:
        path = open_library()
        facts["library"] = f"NCCL {call('version')}, {path}"
    except DistError as error:
        return Examination(facts, str(error), INSTALL)
    n = _count_gpus()
    if n == 0:
        facts["self-test"] = (
            "not run, since /dev/nvidia0, which the NVIDIA driver creates, does not exist"
        )
        return Examination(facts)
    if n == 1:
        answer, text = ask("try")
        facts["self-test"] = "one GPU connects with itself; a further test needs a second GPU"
        return Examination(
            facts, f"one GPU must connect with itself, got: {text}" if answer else ""
        )
    advice = "run NCCL_DEBUG=INFO opwright doctor to see what NCCL does"
    return try_launcher("opwright_nccl.launcher", facts, advice, "cuda")


def _count_gpus() -> int:
    """Return the number of visible GPUs, without using the driver before the self-test."""
    return sum(path.name[6:].isdecimal() for path in Path("/dev").glob("nvidia*"))
