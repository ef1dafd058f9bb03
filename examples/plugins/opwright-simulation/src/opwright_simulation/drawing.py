"""Draws forecasts and timelines with matplotlib, which is optional."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from opwright.errors import MissingRequirementError

if TYPE_CHECKING:
    from opwright_simulation.forecasts import Forecast
    from opwright_simulation.timeline import Timeline

_COLORS: Final = {"compute": "tab:blue", "network": "tab:orange", "wait": "tab:gray"}


def draw_efficiency(forecasts: Sequence[Forecast], path: str | Path) -> None:
    """Draw the efficiency over the number of processes, one line per network.

    Parameters
    ----------
    forecasts : sequence of Forecast
    path : str or Path
        The file; its suffix is ``.png``, ``.svg`` or another format of matplotlib.

    Raises
    ------
    MissingRequirementError
        If matplotlib is not installed; the message has the command.
    """
    figure = _load_figure()(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    for name in dict.fromkeys(forecast.network.name for forecast in forecasts):
        line = [forecast for forecast in forecasts if forecast.network.name == name]
        axes.plot(
            [forecast.ranks for forecast in line],
            [100 * forecast.efficiency for forecast in line],
            marker="o",
            label=name,
        )
    axes.set_xscale("log", base=2)
    ranks = sorted({forecast.ranks for forecast in forecasts})
    axes.set_xticks(ranks, [str(n) for n in ranks])
    axes.set_ylim(0, 105)
    axes.set_xlabel("processes")
    axes.set_ylabel("efficiency in per cent")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(Path(path))


def draw_timelines(timelines: Mapping[str, Timeline], path: str | Path) -> None:
    """Draw stacked timelines of computation, communication and waits.

    Parameters
    ----------
    timelines : mapping of str to Timeline
        Timelines by label.
    path : str or Path
        The file; its suffix is ``.png``, ``.svg`` or another format of matplotlib.

    Raises
    ------
    MissingRequirementError
        If matplotlib is not installed; the message has the command.
    """
    rows = [
        (label, lane, [span for span in line.spans if span.lane == lane])
        for label, line in timelines.items()
        for lane in _COLORS
        if any(span.lane == lane for span in line.spans)
    ]
    figure = _load_figure()(figsize=(6.4, 0.8 + 0.35 * len(rows)), layout="constrained")
    axes = figure.subplots()
    for height, (_, lane, spans) in enumerate(rows):
        bars = [(1e3 * span.begin_s, 1e3 * (span.end_s - span.begin_s)) for span in spans]
        axes.broken_barh(
            bars, (height - 0.4, 0.8), facecolors=_COLORS[lane], edgecolors="white", linewidth=0.3
        )
    axes.set_yticks(range(len(rows)), [f"{label}, {lane}" for label, lane, _ in rows])
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds")
    figure.savefig(Path(path))


def _load_figure() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingRequirementError(
            f"opwright-simulation: matplotlib must be installed to draw, got {error}; run: "
            "pip install matplotlib"
        ) from None
    return Figure  # pyplot is avoided, since it has windows and global state
