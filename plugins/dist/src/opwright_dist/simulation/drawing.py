"""Draws forecasts by matplotlib, which is optional."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opwright.errors import MissingRequirementError

if TYPE_CHECKING:
    from opwright_dist.simulation.forecasts import Forecast


def draw_efficiency(forecasts: Sequence[Forecast], path: str) -> None:
    """Draw the efficiency over the number of processes, a line for each network.

    Parameters
    ----------
    forecasts : sequence of Forecast
    path : str
        Ends in ``.png`` or ``.svg``, or another format of matplotlib.

    Raises
    ------
    MissingRequirementError
        matplotlib is not installed; the message has the command.
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


def _load_figure() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingRequirementError(
            f"Report.plot: matplotlib must be installed to draw, got {error}; run: pip install "
            "matplotlib"
        ) from None
    return Figure  # without pyplot, which has windows and a global state
