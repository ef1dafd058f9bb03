"""What ``opwright doctor`` prints about NCCL."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Final

from opwright.commands import Examination
from opwright.errors import OpwrightError
from opwright_cuda.services import count_gpus
from opwright_dist import DistError
from opwright_nccl.library import INSTALL, ask, call, open_library

_SELF_TEST: Final = ("run", "-n", "2", "-m", "opwright_dist.self_test", "cuda")
_LAUNCH: Final = "import sys; from opwright_nccl.launcher import main; sys.exit(main(sys.argv[1:]))"


def examine() -> Examination:
    """Find the library, ask for its version and an id, and have two GPUs meet where there are."""
    facts = {}
    try:
        path = open_library()
        facts["library"] = f"NCCL {call('version')}, {path}"
    except DistError as error:
        return Examination(facts, str(error), INSTALL)
    try:
        n = count_gpus()
    except OpwrightError as error:
        facts["self-test"] = f"not run: {error}"
        return Examination(facts)
    if n == 1:
        answer, text = ask("try")
        facts["self-test"] = "one GPU connects with itself; another one is needed for more"
        return Examination(
            facts, f"one GPU must connect with itself, got: {text}" if answer else ""
        )
    return _test(facts)


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
