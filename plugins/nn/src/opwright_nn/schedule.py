"""Learning rates that change from step to step, computed by operators of the training step.

A schedule can be the ``learning_rate`` of an optimizer. A schedule stores the step number in a
persistable variable, so a checkpoint continues the schedule, and plans are not rebuilt.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import opwright as ow
from opwright.errors import AttributeValueError, ProgramError
from opwright_nn import arguments, checks
from opwright_nn.foreign_names import SCHEDULES, answering

__all__ = ["Rate", "Schedule", "cosine", "one_cycle", "step", "warmup"]

if not TYPE_CHECKING:  # type checkers should report an unknown name
    __getattr__, __dir__ = answering(__name__, __all__, SCHEDULES)

Curve = Callable[[Any], Any]
"""Maps the number of completed steps, float32 [1], to the learning rate, float32 [1]."""


class Schedule:
    """A learning rate as a function of the number of completed steps.

    Parameters
    ----------
    curve : callable
        Called with this number as a float32 [1] array or Variable; returns the rate in the same
        form. It computes with symbols and functions of `opwright.ops`, which accept both:
        ``Schedule(lambda t: 0.1 / (1 + 0.01 * t))``.
    """

    @arguments.suggest
    def __init__(self, curve: Curve) -> None:
        checks.check_callable("Schedule", "curve", curve)
        self.curve = curve

    def __repr__(self) -> str:
        return f"Schedule({self.rate(0):.6g} in the first step)"

    def rate(self, step: int) -> float:
        """Return the rate of a step; the first step has the number 0."""
        number = checks.check_int("Schedule.rate", "step", step, at_least=0)
        got = self.curve(np.array([number], np.float32))
        value = checks.find_array(got)
        is_number = value is not None and value.shape == (1,) and value.dtype.kind in "biuf"
        if value is None or not is_number or not 0 <= value[0] <= checks.MAX_FLOAT32:
            raise AttributeValueError(
                f"Schedule: curve must return one finite rate of at least 0, got {got!r} for "
                f"step {number}; compute it from its argument, float32 [1]"
            )
        return float(value[0])

    def append(self, step: ow.Variable) -> ow.Variable:
        """Append the operators that compute the rate from `step`, float32 [1]."""
        rate = self.curve(step)
        if not isinstance(rate, ow.Variable) or rate.shape != (1,) or rate.dtype != "float32":
            raise ProgramError(
                f"Schedule: curve must map a Variable to a float32 [1] Variable, got {rate!r}; use "
                "symbols and opwright.ops, which take arrays and Variables"
            )
        return rate


Rate = float | Schedule
"""Learning rates of optimizers."""


@arguments.suggest
def step(rate: float, size: int, gamma: float = 0.1) -> Schedule:
    """Multiply the rate by `gamma` after each `size` steps.

    ``rate * gamma ** floor(t / size)``

    Parameters
    ----------
    rate : float, at least 0
        The rate of the first steps.
    size : int, at least 1
        The number of steps with the same rate.
    gamma : float, > 0
        The factor.
    """
    rate = checks.check_rate("schedule.step", "rate", rate)
    size = checks.check_int("schedule.step", "size", size, at_least=1)
    log_gamma = math.log(checks.check_float("schedule.step", "gamma", gamma, above=0.0))
    return Schedule(partial(_stairs, rate, size, log_gamma))


@arguments.suggest
def cosine(rate: float, steps: int, warmup: int = 0, final: float = 0.0) -> Schedule:
    """Decrease the rate to `final` along half a cosine, after a linear warm-up.

    ``final + (rate - final) * (1 + cos(pi * p)) / 2``; p in [0, 1] is the progress after warm-up.
    Loshchilov and Hutter, SGDR: Stochastic Gradient Descent with Warm Restarts, 2017.

    Parameters
    ----------
    rate : float, at least 0
        The highest rate.
    steps : int, at least 1
        The step from which the rate is `final`.
    warmup : int, in [0, steps)
        The first `warmup` steps have the rates ``rate * (t + 1) / warmup``.
    final : float, at least 0
        The final rate.
    """
    who = "schedule.cosine"
    rate = checks.check_rate(who, "rate", rate)
    final = checks.check_rate(who, "final", final)
    steps = checks.check_int(who, "steps", steps, at_least=1)
    n_warm = checks.check_int(who, "warmup", warmup, at_least=0, at_most=steps - 1)
    falling = Schedule(partial(_half_cosine, rate, final, 0.0, float(steps - n_warm)))
    return _after_warmup(falling, rate, n_warm)


@arguments.suggest
def warmup(schedule: Rate, steps: int) -> Schedule:
    """Precede a rate, or another schedule, with a linear warm-up.

    Step t of the warm-up has the rate ``first * (t + 1) / steps``; step 0 of `schedule` follows.

    Parameters
    ----------
    schedule : float, at least 0, or Schedule
        The next schedule; `first` is this rate, or the rate of its first step.
    steps : int, at least 1
        The length of the warm-up.
    """
    who = "schedule.warmup"
    steps = checks.check_int(who, "steps", steps, at_least=1)
    if isinstance(schedule, Schedule):
        return _after_warmup(schedule, schedule.rate(0), steps)
    rate = checks.check_rate(who, "schedule", schedule)
    return _after_warmup(Schedule(partial(_constant, rate)), rate, steps)


@arguments.suggest
def one_cycle(
    rate: float, steps: int, rise: float = 0.3, start: float = 0.04, final: float = 4e-6
) -> Schedule:
    """Increase the rate from ``rate * start`` to `rate` and decrease it to ``rate * final``, by
    cosines.

    Smith and Topin, Super-Convergence: Very Fast Training of Neural Networks Using Large Learning
    Rates, 2018.

    Parameters
    ----------
    rate : float, at least 0
        The maximum rate.
    steps : int, at least 2
        The number of steps from beginning to end.
    rise : float in (0, 1)
        The fraction of steps until the maximum rate.
    start, final : float in [0, 1]
        The first and the last rate, as fractions of the maximum.
    """
    who = "schedule.one_cycle"
    rate = checks.check_rate(who, "rate", rate)
    steps = checks.check_int(who, "steps", steps, at_least=2)
    rise = checks.check_float(who, "rise", rise, above=0.0, below=1.0)
    low = rate * checks.check_float(who, "start", start, at_least=0.0, at_most=1.0)
    last = rate * checks.check_float(who, "final", final, at_least=0.0, at_most=1.0)
    return Schedule(partial(_cycle, low, rate, last, rise * steps, float(steps)))


# Curves are module-level functions so that models with a schedule can be pickled.


def _constant(rate: float, t: Any) -> Any:
    return 0.0 * t + rate


def _stairs(rate: float, size: int, log_gamma: float, t: Any) -> Any:
    return rate * ow.ops.exp(log_gamma * ow.ops.floor((t + 0.5) * (1.0 / size)))


def _half_cosine(first: float, last: float, begin: float, end: float, t: Any) -> Any:
    """Return `first` until `begin`, half a cosine until `end`, and then `last`."""
    share = ow.ops.clip((t - begin) * (1.0 / (end - begin)), min=0.0, max=1.0)
    return (ow.ops.cos(share * math.pi) + 1.0) * (0.5 * (first - last)) + last


def _cycle(low: float, high: float, last: float, top: float, end: float, t: Any) -> Any:
    rising = _half_cosine(low, high, 0.0, top, t)
    return ow.ops.where(t < top, rising, _half_cosine(high, last, top, end, t))


def _after_warmup(schedule: Schedule, rate: float, n_warm: int) -> Schedule:
    return Schedule(partial(_warm, rate, n_warm, schedule)) if n_warm else schedule


def _warm(rate: float, n_warm: int, schedule: Schedule, t: Any) -> Any:
    later = schedule.curve(ow.ops.relu(t - float(n_warm)))
    return ow.ops.where(t < float(n_warm), (t + 1.0) * (rate / n_warm), later)
