"""The number of kernel threads: a process-wide setting, because cores are shared.

Whether results may depend on that number is also a setting, used by plans that do not specify it.
Both settings are deliberately global. Every change advances the epochs, so plans are lowered again.
Thread libraries do not survive a fork, so a child process uses one thread.
"""

from __future__ import annotations

import functools
import operator
import os
from collections.abc import Mapping
from typing import Final, SupportsIndex

from opwright import _runtime
from opwright.cache_folder import read_switch
from opwright.errors import SettingError
from opwright.messages.arguments import suggest_arguments

VARIABLE: Final = "OPWRIGHT_NUM_THREADS"
"""Environment variable with the initial number of threads of a process."""

OPENMP_VARIABLE: Final = "OMP_NUM_THREADS"
"""The variable that job schedulers and launchers such as torchrun set for any library."""

MAX_THREADS: Final = 1024
"""Maximum number, more than the cores of any machine; a larger number must be a mistake."""

DETERMINISTIC_VARIABLE: Final = "OPWRIGHT_DETERMINISTIC"
"""Environment variable that determines whether plans are deterministic by default."""

DETERMINISTIC_THREADS: Final = 8
"""The number of threads for which kernels of a deterministic plan are prepared, on every machine.
The host runs their shares on the threads that it has.
docs/decisions/0057-deterministic-plans-are-prepared-for-eight-threads.md explains why eight."""


_n_threads: int | None = None  # None until the first call of get_num_threads
_is_forked = False


def get_num_threads() -> int:
    """Return the number of threads that kernels may use.

    The number is the last value given to `set_num_threads`, otherwise the environment variable
    OPWRIGHT_NUM_THREADS, otherwise OMP_NUM_THREADS, otherwise the number of CPUs that this process
    may use. In a forked process, the number is 1.

    Raises
    ------
    SettingError
        If OPWRIGHT_NUM_THREADS is not a number from 1 to 1024.
    """
    global _n_threads  # noqa: PLW0603 - the setting itself
    if _n_threads is None:
        _n_threads = count_from_environment(os.environ)
        _runtime.limit_threads(_n_threads)
    return _n_threads


def is_forked() -> bool:
    """Return whether this process was forked, so it lacks the threads of its parent."""
    return _is_forked


@functools.cache
def is_deterministic() -> bool:
    """Return whether plans by default give bitwise identical results for any number of threads.

    OPWRIGHT_DETERMINISTIC, read at first use; default False; SettingError if it is not 0 or 1.
    """
    return read_switch(DETERMINISTIC_VARIABLE)


def count_for_plan(deterministic: bool) -> int:
    """Return the number of threads that the kernels of a plan are prepared for."""
    count = get_num_threads()  # always, because it sets the host's limit
    return DETERMINISTIC_THREADS if deterministic else count


@suggest_arguments
def set_num_threads(n_threads: SupportsIndex) -> None:
    """Set the number of threads of kernels in every Context, starting with the next call.

    Plans are lowered again. The last bits of results may differ if kernels sum in a different
    order.

    Parameters
    ----------
    n_threads : int
        1 to 1024. More threads than cores make everything slower.

    Raises
    ------
    SettingError
        For any other value, and for more than 1 in a process created by a fork.
    """
    count = _check(n_threads)
    if _is_forked and count > 1:
        raise SettingError(
            f"set_num_threads: must be 1 in a process created by a fork, got {count}: thread "
            "libraries do not survive it; start workers afresh, with multiprocessing's 'spawn'"
        )
    global _n_threads  # noqa: PLW0603 - the setting itself
    changed = _n_threads != count
    _n_threads = count
    _runtime.limit_threads(count)
    if changed:
        _runtime.advance_epochs()


def count_from_environment(environ: Mapping[str, str]) -> int:
    """Return the number in an environment, by default the number of usable CPUs.

    An invalid number for OpenMP is ignored, as OpenMP ignores it.
    """
    text = environ.get(VARIABLE, "").strip()
    if not text:
        outermost = environ.get(OPENMP_VARIABLE, "").partition(",")[0].strip()
        return _parse(outermost) or min(len(os.sched_getaffinity(0)), MAX_THREADS)
    count = _parse(text)
    if count is None:
        raise SettingError(
            f"{VARIABLE}: must be a number from 1 to {MAX_THREADS}, got {text!r}; set it to 1, or "
            "leave it unset to use every CPU of the process"
        )
    return count


def _parse(text: str) -> int | None:
    """Return a valid number of threads, or None."""
    is_short = text.isdecimal() and len(text) <= len(str(MAX_THREADS))
    return int(text) if is_short and 1 <= int(text) <= MAX_THREADS else None


def _check(n_threads: SupportsIndex) -> int:
    try:
        count = -1 if isinstance(n_threads, bool) else operator.index(n_threads)
    except TypeError:
        count = -1
    if 1 <= count <= MAX_THREADS:
        return count
    raise SettingError(
        f"set_num_threads: must be an int from 1 to {MAX_THREADS}, got {n_threads!r}; "
        "give the number of cores that kernels may use"
    )


def _after_fork() -> None:
    global _n_threads, _is_forked
    _n_threads, _is_forked = 1, True
    _runtime.limit_threads(1)
    _runtime.advance_epochs()


os.register_at_fork(after_in_child=_after_fork)
