"""Simulates a step with computation, sequential collectives, and waits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from opwright_dist import current_world
from opwright_simulation.networks import Cost
from opwright_simulation.steps import Compute, Start, Step


class Span(NamedTuple):
    """An interval of a timeline.

    Attributes
    ----------
    lane : str
        ``"compute"``, ``"network"`` or ``"wait"``.
    label : str
    begin_s, end_s : float
        Seconds since the step began.
    """

    lane: str
    label: str
    begin_s: float
    end_s: float


class Timeline(NamedTuple):
    """A simulated step.

    Attributes
    ----------
    spans : tuple of Span
        Ordered by lane and begin.
    step_s : float
        Duration of the step.
    wait_s : float
        The seconds of the step in which the process waits for the network or does the network's
        work.
    latency_s, transfer_s : float
        The totals of all collectives, including time that overlaps with computation.
    """

    spans: tuple[Span, ...]
    step_s: float
    wait_s: float
    latency_s: float
    transfer_s: float


def play(
    step: Step, cost: Callable[[Start], Cost], *, overlap: float = 1.0, slowdown: float = 1.0
) -> Timeline:
    """Simulate a step, given the costs of collectives.

    Parameters
    ----------
    step : Step
    cost : callable
        A function that returns the `Cost` of a `Start`.
    overlap : float
        The fraction of each collective that does not occupy the process, in [0, 1].
    slowdown : float
        A factor for the computation time.
    """
    spans: list[Span] = []
    ends: dict[int, tuple[float, float]] = {}  # arrival time and remaining work
    now = free = wait_s = latency_s = transfer_s = 0.0
    for event in step.events:
        if isinstance(event, Compute):
            end = now + slowdown * event.seconds
            spans.append(Span("compute", event.label, now, end))
        elif isinstance(event, Start):
            price = cost(event)
            latency_s, transfer_s = latency_s + price.latency_s, transfer_s + price.transfer_s
            begin, own_s = max(now, free), (1 - overlap) * price.seconds
            free = begin + overlap * price.seconds
            ends[event.key] = (free, own_s)
            if price.seconds:
                label = f"{event.collective} {event.size_bytes} bytes, {price.algorithm}"
                spans.append(Span("network", label, begin, free + own_s))
            continue
        else:
            ready, own_s = ends.pop(event.key)
            end = max(now, ready) + own_s
            wait_s += end - now
            if end > now:
                spans.append(Span("wait", f"wait {event.key}", now, end))
        now = end
    return Timeline(tuple(spans), now, wait_s, latency_s, transfer_s)


def collect_timelines(profile: Any, group: str = "world") -> dict[str, Timeline]:
    """Return all processes' timelines of a measured step; every process of the group calls this.

    Parameters
    ----------
    profile : opwright_kit.profiling.Profile
        The result of ``network.profile`` in this process, with medians per step.
    group : str

    Returns
    -------
    dict of str to Timeline
        Timelines by ``"rank 0"`` and so on. Collectives are in the lane ``"wait"``, since their
        time includes waiting for all processes and the data.

    Raises
    ------
    DistError
        If the group is unknown, or a process is missing.
    """
    rows = [(row.op_type, row.median_s) for row in profile.rows if not row.depth]
    texts = current_world().engine.gather(json.dumps(rows).encode(), group)
    return {f"rank {rank}": _line_up(json.loads(text)) for rank, text in enumerate(texts)}


def _line_up(rows: Iterable[tuple[str, float]]) -> Timeline:
    spans: list[Span] = []
    now = wait_s = 0.0
    for op_type, seconds in rows:
        waits = op_type.startswith("dist.")
        spans.append(Span("wait" if waits else "compute", op_type, now, now + seconds))
        now += seconds
        wait_s += seconds if waits else 0.0
    return Timeline(tuple(spans), now, wait_s, 0.0, 0.0)


def write_trace(path: str | Path, timelines: Mapping[str, Timeline]) -> None:
    """Write a Chrome trace, for chrome://tracing and Perfetto, with one process per timeline.

    Parameters
    ----------
    path : str or Path
        A JSON file, overwritten if it exists.
    timelines : mapping of str to Timeline
        Timelines by label.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    events: list[dict[str, Any]] = []
    for process, (label, timeline) in enumerate(timelines.items()):
        events.append({"name": "process_name", "ph": "M", "pid": process, "args": {"name": label}})
        events += [
            {
                "name": span.label,
                "ph": "X",
                "ts": round(span.begin_s * 1e6, 3),
                "dur": round((span.end_s - span.begin_s) * 1e6, 3),
                "pid": process,
                "tid": span.lane,
            }
            for span in timeline.spans
        ]
    Path(path).write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
