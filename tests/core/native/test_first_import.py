"""The native module is registered exactly once per process."""

from __future__ import annotations

import subprocess
import sys

INTERRUPTED = """
import signal, sys, numpy, opwright, opwright.errors

class Stop(BaseException):
    pass

def stop(number, frame):
    # Interrupt the import between two registrations, or right after the last registration.
    if hasattr(sys.modules.get("opwright._runtime"), "Device"):
        signal.setitimer(signal.ITIMER_REAL, 0)
        raise Stop

signal.signal(signal.SIGALRM, stop)
signal.setitimer(signal.ITIMER_REAL, 1e-5, 1e-5)
try:
    from opwright import _runtime
except (Stop, ImportError):
    pass
signal.setitimer(signal.ITIMER_REAL, 0)
from opwright import _runtime
assert _runtime.host_device().name == "cpu"
"""

SUBINTERPRETER = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
code = '''
try:
    from opwright import _runtime
except ImportError as error:
    assert "must be used in the main interpreter" in str(error), error
else:
    raise SystemExit("imported")
'''
run = getattr(interpreters, "exec", None) or interpreters.run_string
failure = run(interpreters.create(), code)
assert failure is None, failure
"""


def run(code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_signal_during_the_first_import_does_not_break_the_next_import() -> None:
    run(INTERRUPTED)


def test_a_subinterpreter_is_refused() -> None:
    run(SUBINTERPRETER)
