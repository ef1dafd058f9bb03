"""Predicts the step time, efficiency losses and bottleneck of training with many processes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from opwright.commands import align, format_seconds
from opwright_dist import DistError
from opwright_simulation.drawing import draw_efficiency
from opwright_simulation.networks import Network
from opwright_simulation.steps import Step
from opwright_simulation.timeline import Timeline, play

_TO_THE_RIGHT: Final = {1, 2, 3, 4, 5, 6}
_TITLE: Final = ("network", "ranks", "step", "waiting", "stragglers", "failures", "efficiency")
_NOTHING_LIMITS: Final = 0.02
"""Losses below this fraction of the time do not need a remedy."""

REMEDIES: Final = {
    "bandwidth": "send less (larger batches on each rank, 16-bit parameters, large embeddings "
    "partitioned by rows), or use faster links",
    "latency": "use larger buckets (option dist.bucket_bytes) or a hierarchical network",
    "stragglers": "balance the work of all ranks: equal batches, pinned processes, fewer ranks per "
    "machine",
    "failures": "write checkpoints at the interval in the table, while training continues",
    "nothing": "more ranks",
}
"""Remedies for each bottleneck."""


class Reliability(NamedTuple):
    """Failure rates and the costs of failures.

    Attributes
    ----------
    rank_mtbf_s : float
        Mean seconds between failures of one process with its device; infinity for never.
    checkpoint_s : float
        Seconds that a checkpoint interrupts training.
    restart_s : float
        Seconds from a failure to the restart from the last checkpoint.
    interval_s : float or None
        Seconds between checkpoints; None for the optimum.
    """

    rank_mtbf_s: float = math.inf
    checkpoint_s: float = 10.0
    restart_s: float = 60.0
    interval_s: float | None = None

    def best_interval_s(self, ranks: int) -> float:
        """Return the optimal interval, sqrt(2 C M) of Young, CACM 17, 1974."""
        return math.sqrt(2 * self.checkpoint_s * self.rank_mtbf_s / ranks)

    def useful_share(self, ranks: int) -> float:
        """Return the fraction of time that is not spent on checkpoints, restarts and repeated work.

        Failures are assumed independent; see J. T. Daly, A higher order estimate of the optimum
        checkpoint interval, FGCS 22, 2006, equation 13.
        """
        if math.isinf(self.rank_mtbf_s):
            if self.interval_s is None:
                return 1.0
            return self.interval_s / (self.interval_s + self.checkpoint_s)
        mtbf_s = self.rank_mtbf_s / ranks
        interval_s = self.interval_s or self.best_interval_s(ranks) or mtbf_s * 1e-6
        exponent = (interval_s + self.checkpoint_s) / mtbf_s
        if self.restart_s / mtbf_s + exponent > 700:  # exp would overflow, and there is no progress
            return 0.0
        return interval_s / (mtbf_s * math.exp(self.restart_s / mtbf_s) * math.expm1(exponent))


@dataclass(frozen=True, slots=True)
class Forecast:
    """The prediction for a network and a number of processes.

    Attributes
    ----------
    network : Network
    ranks : int
    alone_s : float
        Seconds of a step of a single process.
    timeline : Timeline
        The step of the slowest process.
    straggling_s : float
        Extra seconds that the slowest process computes, compared with the mean.
    useful_share : float
        As in `Reliability.useful_share`.
    interval_s : float or None
        Seconds between checkpoints; None if there are no failures and no interval is given.
    examples : int
        Examples per step of one process; 0 if unknown.
    """

    network: Network
    ranks: int
    alone_s: float
    timeline: Timeline
    straggling_s: float
    useful_share: float
    interval_s: float | None
    examples: int

    @property
    def step_s(self) -> float:
        """Seconds of a step without failures."""
        return self.timeline.step_s

    @property
    def efficiency(self) -> float:
        """Throughput relative to the same number of independent processes."""
        return self.useful_share * self.alone_s / self.step_s if self.step_s else 1.0

    @property
    def examples_per_s(self) -> float:
        """Examples per second of all processes, taking failures into account."""
        return self.examples * self.ranks * self.useful_share / self.step_s

    @property
    def losses(self) -> dict[str, float]:
        """Fractions of time lost to latency, bandwidth, stragglers and failures."""
        line = self.timeline
        network_s = line.latency_s + line.transfer_s
        latency = line.latency_s / network_s if network_s else 0.0
        scale = self.useful_share / self.step_s if self.step_s else 0.0
        return {
            "bandwidth": (1 - latency) * line.wait_s * scale,
            "latency": latency * line.wait_s * scale,
            "stragglers": self.straggling_s * scale,
            "failures": 1 - self.useful_share,
        }

    @property
    def limit(self) -> str:
        """The bottleneck, a key of `REMEDIES`, or ``"nothing"`` if all losses are below 2 %."""
        losses = self.losses
        worst = max(losses, key=lambda name: losses[name])
        return worst if losses[worst] >= _NOTHING_LIMITS else "nothing"


@dataclass(frozen=True, slots=True)
class Report:
    """Forecasts for some networks and numbers of processes; `print` shows a table."""

    forecasts: tuple[Forecast, ...]

    def __str__(self) -> str:
        rows = [(*_TITLE, "limit"), *map(_cells, self.forecasts)]
        limits = dict.fromkeys(forecast.limit for forecast in self.forecasts)
        remedies = [f"{limit}: {REMEDIES[limit]}" for limit in limits]
        return "\n".join([*align(rows, _TO_THE_RIGHT), "", *remedies])

    def plot(self, path: str) -> None:
        """Draw the efficiency over the number of processes; see `draw_efficiency`."""
        draw_efficiency(self.forecasts, path)


def simulate(
    step: Step | Callable[[int], Step],
    ranks: Sequence[int],
    networks: Sequence[Network],
    *,
    spread: float = 0.0,
    reliability: Reliability | None = None,
) -> Report:
    """Predict the step of data-parallel training on many processes.

    Parameters
    ----------
    step : Step or callable
        The step of one process, from `rehearse` or `step_of_layers`; a callable receives the number
        of processes, for programs whose shapes depend on it.
    ranks : sequence of int
        Numbers of processes, each at least 1.
    networks : sequence of Network
    spread : float
        Relative standard deviation of the computation time of a process. Times are assumed normal
        and independent; each step waits for the slowest process.
    reliability : Reliability, optional
        By default without failures.

    Returns
    -------
    Report
        For each network, in order, one forecast for each number of processes.

    Raises
    ------
    DistError
        If a number is out of range.
    """
    reliability = reliability or Reliability()
    _check(ranks, networks, spread, reliability)
    forecasts = []
    for network in networks:
        for n in ranks:
            own = step(n) if callable(step) else step
            forecasts.append(_forecast(own, n, network, spread, reliability))
    return Report(tuple(forecasts))


def _forecast(
    step: Step, ranks: int, network: Network, spread: float, reliability: Reliability
) -> Forecast:
    excess = spread * expected_maximum(ranks)
    crowding = network.crowding(ranks)
    timeline = play(
        step,
        lambda start: network.cost(start.collective, start.size_bytes, ranks),
        overlap=network.overlap,
        slowdown=crowding * (1 + excess),
    )
    fails = not math.isinf(reliability.rank_mtbf_s)
    best = reliability.best_interval_s(ranks) if fails else None
    return Forecast(
        network=network,
        ranks=ranks,
        alone_s=step.compute_s,
        timeline=timeline,
        straggling_s=step.compute_s * crowding * excess,
        useful_share=reliability.useful_share(ranks),
        interval_s=reliability.interval_s or best,
        examples=step.examples,
    )


def expected_maximum(n: int) -> float:
    """Return the mean of the largest of `n` independent standard normal numbers.

    Integrates x d(Phi(x)^n) by parts, with the trapezoidal rule; the error is below 1e-5.
    """
    if n == 1:
        return 0.0
    x = np.linspace(0.0, 12.0, 2401)
    above = 1 - np.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in x]) ** n
    below = np.array([0.5 * math.erfc(value / math.sqrt(2)) for value in x]) ** n
    return float(np.trapezoid(above - below, x))


def _check(
    ranks: Sequence[int], networks: Sequence[Network], spread: float, reliability: Reliability
) -> None:
    if not ranks or not networks:
        raise DistError("simulate: ranks and networks must not be empty; pass at least one of each")
    if min(ranks) < 1:
        raise DistError(f"simulate: ranks must be at least 1, got {min(ranks)}")
    if not 0 <= spread < 1:
        raise DistError(f"simulate: spread must be a fraction in [0, 1), got {spread}")
    for name, value in reliability._asdict().items():
        positive = name in {"rank_mtbf_s", "interval_s"}
        if value is not None and not (value > 0 if positive else 0 <= value < math.inf):
            rule = "more than 0" if positive else "finite and at least 0"
            raise DistError(f"simulate: {name} must be {rule} seconds, got {value}")


def _cells(forecast: Forecast) -> tuple[str, ...]:
    losses = forecast.losses
    return (
        forecast.network.name,
        str(forecast.ranks),
        format_seconds(forecast.step_s),
        format_share(losses["bandwidth"] + losses["latency"]),
        format_share(losses["stragglers"]),
        format_share(losses["failures"]),
        format_share(forecast.efficiency),
        forecast.limit,
    )


def format_share(share: float) -> str:
    """Format a fraction as a percentage: ``12.3 %``."""
    return f"{100 * share:.1f} %"
