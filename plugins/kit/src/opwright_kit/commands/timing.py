"""Times one run of a kernel by comparing a plan of many runs with a plan of one run.

Both plans have the same overhead: a call from Python, and copies to the device and back. So the
difference is the time of the kernel in the native loop over the steps of a plan.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Final

from opwright import Context
from opwright.kernel import KernelEntry
from opwright_kit.testing.launch.kernel_run import KernelRun
from opwright_kit.testing.launch.launching import Launch
from opwright_kit.testing.samples.sample import Sample

ROUND_S: Final = 0.005
"""Target time of the runs of one kernel in each round."""

_MAX_REPEAT: Final = 5000
_MAX_GROWTH: Final = 16
_WARMUP_RUNS: Final = 5


class KernelTimer:
    """One kernel, prepared for a sample, to be timed in rounds.

    Parameters
    ----------
    entry : KernelEntry
    sample : Sample
    device : str
        Device type, for a kernel of any device.
    n_threads : int
        Number of threads that the kernel may use.

    Attributes
    ----------
    run : KernelRun
        Its result.
    repeat : int
        How often it runs in each round.

    Raises
    ------
    Refuse
        If the kernel refuses the sample.
    OpwrightError
        If it cannot be loaded, prepared or run.
    """

    def __init__(
        self, entry: KernelEntry, sample: Sample, device: str, n_threads: int, context: Context
    ) -> None:
        self.entry = entry
        self._sample = sample
        self._device = device
        self._n_threads = n_threads
        self._context = context
        once = self._launch(1)
        self.run: KernelRun = once.run()
        self._once = _filled(once)
        self.repeat = 2
        self._many = _filled(self._launch(self.repeat))
        self._find_repeat()

    def _find_repeat(self) -> None:
        """Raise `repeat` stepwise until a round is long enough; short times are mostly noise."""
        while self.repeat < _MAX_REPEAT:
            took_s = median(self.measure() for _ in range(_WARMUP_RUNS)) * (self.repeat - 1)
            if took_s >= ROUND_S / 2:
                return
            factor = min(math.ceil(ROUND_S / max(took_s, 1e-9)), _MAX_GROWTH)
            self.repeat = min(self.repeat * factor, _MAX_REPEAT)
            self._many = _filled(self._launch(self.repeat))

    def _launch(self, repeat: int) -> Launch:
        return Launch(
            self.entry,
            self._sample,
            context=self._context,
            device=self._device,
            n_threads=self._n_threads,
            repeat=repeat,
        )

    def measure(self) -> float:
        """Return the seconds that one run of the kernel took, on average over one round."""
        once_s = _time(self._once)
        many_s = _time(self._many)
        return max(many_s - once_s, 0.0) / (self.repeat - 1)


def _filled(launch: Launch) -> Callable[[], object]:
    """Fill memory once, and return a function that runs the launch in it at every call."""
    return partial(launch.run_filled, launch.fill())


def _time(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measure_in_turn(timers: Sequence[KernelTimer], n_rounds: int) -> list[list[float]]:
    """Return the seconds of each kernel in each round.

    Every round starts with a different kernel, so a disturbance of the machine, or a warm cache,
    affects all of them.
    """
    times: list[list[float]] = [[] for _ in timers]
    collects = gc.isenabled()
    gc.disable()
    try:
        for number in range(n_rounds):
            for offset in range(len(timers)):
                index = (number + offset) % len(timers)
                times[index].append(timers[index].measure())
    finally:
        if collects:
            gc.enable()
    return times
