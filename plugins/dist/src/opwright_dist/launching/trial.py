"""Runs the self-test of an engine in two processes, for its section of ``opwright doctor``."""

from __future__ import annotations

import subprocess
import sys
import time

from opwright.commands import Examination


def try_launcher(
    launcher: str, facts: dict[str, str], advice: str, device: str = "cpu"
) -> Examination:
    """Run the self-test in two processes; return its result, and advice if it fails.

    Parameters
    ----------
    launcher : str
        The module with the launcher's ``main``.
    facts : dict of str to str
        The facts collected so far; the result is added to them.
    advice : str
        What to do if the self-test fails.
    device : str
        The device of the numbers.
    """
    start = f"import sys; from {launcher} import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", start, "run", "-n", "2", "-m", "opwright_dist.self_test"]
    began = time.perf_counter()
    done = subprocess.run([*command, device], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return Examination(facts, f"its self-test failed:\n{done.stdout}{done.stderr}", advice)
    result = done.stdout.splitlines()[0].partition("] ")[2]
    facts["self-test"] = f"{result}, {time.perf_counter() - began:.1f} s"
    return Examination(facts)
