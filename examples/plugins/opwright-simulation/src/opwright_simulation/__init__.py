"""Predicts the performance of training with many processes.

>>> import opwright_simulation as simulation
>>> step = simulation.step_of_layers([(0.1, 400_000_000), (0.3, 60_000_000)], examples=64)
>>> report = simulation.simulate(step, [8, 512], [simulation.get_network("ethernet")])
>>> [round(forecast.efficiency, 2) for forecast in report.forecasts]
[0.84, 0.58]
"""

from __future__ import annotations

from opwright_simulation.drawing import draw_timelines
from opwright_simulation.forecasts import (
    REMEDIES,
    Forecast,
    Reliability,
    Report,
    simulate,
)
from opwright_simulation.networks import (
    NETWORKS,
    Cost,
    Link,
    Network,
    fit_link,
    get_network,
)
from opwright_simulation.rehearsals import rehearse
from opwright_simulation.steps import Compute, Start, Step, Wait, step_of_layers
from opwright_simulation.timeline import (
    Span,
    Timeline,
    collect_timelines,
    play,
    write_trace,
)

__all__ = [
    "NETWORKS",
    "REMEDIES",
    "Compute",
    "Cost",
    "Forecast",
    "Link",
    "Network",
    "Reliability",
    "Report",
    "Span",
    "Start",
    "Step",
    "Timeline",
    "Wait",
    "collect_timelines",
    "draw_timelines",
    "fit_link",
    "get_network",
    "play",
    "rehearse",
    "simulate",
    "step_of_layers",
    "write_trace",
]
