"""Plays a step: the process computes, one collective after the other travels, some are awaited."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from opwright_dist.groups import current_world
from opwright_dist.groups.world import WORLD
from opwright_dist.simulation.networks import Cost
from opwright_dist.simulation.steps import Compute, Start, Step


class Span(NamedTuple):
    """Something that takes time.

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
    """A step that was played.

    Attributes
    ----------
    spans : tuple of Span
        In the order in which they begin, by lane.
    step_s : float
        How long the step takes.
    wait_s : float
        Of that: seconds in which the process waits for the network or works for it.
    latency_s, transfer_s : float
        Of all collectives, hidden behind computing or not.
    """

    spans: tuple[Span, ...]
    step_s: float
    wait_s: float
    latency_s: float
    transfer_s: float


def play(
    step: Step, cost: Callable[[Start], Cost], *, overlap: float = 1.0, slowdown: float = 1.0
) -> Timeline:
    """Return how a step goes where collectives cost time.

    Parameters
    ----------
    step : Step
    cost : callable
        From a `Start` to its `Cost`.
    overlap : float
        The share of each collective that needs nothing of the process, in [0, 1].
    slowdown : float
        What computing takes more: 1 nothing.
    """
    spans: list[Span] = []
    ends: dict[int, tuple[float, float]] = {}  # when it is there, and what is still to be worked
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


def collect_timelines(profile: Any, group: str = WORLD) -> dict[str, Timeline]:
    """Return the timelines of a measured step on all processes of a group, which all call it.

    Parameters
    ----------
    profile : opwright_kit.profiling.Profile
        What ``network.profile`` returned in this process: its steps one by one, by their medians.
    group : str

    Returns
    -------
    dict of str to Timeline
        ``"rank 0"`` and so on. Collectives are in the lane ``"wait"``: their time is that until
        all processes have come and the data is there.

    Raises
    ------
    DistError
        The group is unknown, or a process does not come.
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
    """Write a Chrome trace, for chrome://tracing and Perfetto: a process for each timeline.

    Parameters
    ----------
    path : str or Path
        A file of JSON, replaced where it exists.
    timelines : mapping of str to Timeline
        By what stands beside them.

    Raises
    ------
    OSError
        The file cannot be written.
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
