"""Draws the figures of run.py as bars: each opwright implementation relative to the best peer.

``chart.py result.json chart.svg`` draws the results of ``run.py --json``.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final

from report import format_figure
from workload import is_ours

WIDTH: Final = 760
_NOTE_WIDTH: Final = 330
_BAR_HEIGHT: Final = 16
_STEP: Final = 46
_TOP: Final = 84
_MARGIN: Final = 16
_LEAST_END: Final = 1.1
"""The minimum length of the axis, which extends beyond the best peer."""

_STYLE: Final = """\
text { font: 13px system-ui, sans-serif; fill: #1f2328; }
.title { font-size: 16px; font-weight: 600; }
.faint { fill: #59636e; font-size: 12px; }
.paper { fill: #ffffff; stroke: #d0d7de; }
.bar { fill: #2f6fbf; }
.slower { fill: #bf5b16; }
.peer { stroke: #59636e; stroke-dasharray: 4 3; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .faint { fill: #9198a1; }
  .paper { fill: #0d1117; stroke: #3d444d; }
  .bar { fill: #5b9bea; }
  .slower { fill: #e38a4a; }
  .peer { stroke: #9198a1; }
}
"""


@dataclass(frozen=True, slots=True)
class Bar:
    """An opwright result, compared with the result of the best peer.

    Attributes
    ----------
    title : str
        The measured workloads.
    share : float
        The time divided by the time of the best peer; below 1, opwright is faster. For a rate, the
        inverse.
    note : str
        The absolute figures.
    """

    title: str
    share: float
    note: str


def read_bars(result: dict[str, Any]) -> list[Bar]:
    """Return the bars of a result in its order, one for each measured opwright implementation.

    A workload without a peer, or without an opwright result, has no bar.
    """
    bars = []
    for workload in result["workloads"]:
        ours = [found for found in workload["results"] if is_ours(found["implementation"])]
        measured = [found for found in ours if found.get("ratio_to_best_peer")]
        for found in measured:
            which = f" ({found['implementation']})" if len(measured) > 1 else ""
            share, note = _share_of(found, workload), _note(found, workload)
            bars.append(Bar(workload["title"] + which, share, note))
    return bars


def _share_of(found: dict[str, Any], workload: dict[str, Any]) -> float:
    ratio: float = found["ratio_to_best_peer"]
    return 1 / ratio if workload["more_is_better"] else ratio


def _note(found: dict[str, Any], workload: dict[str, Any]) -> str:
    peer = found["median"] / found["ratio_to_best_peer"]
    noisy = "~" if found.get("is_noisy") else ""
    ours = format_figure(found["median"])
    name = workload["best_peer"]
    return f"{noisy}{ours} {workload['unit']}, {name} {format_figure(peer)} {workload['unit']}"


def draw_chart(result: dict[str, Any]) -> str:
    """Return a result as an SVG that is readable on light and dark pages.

    Raises
    ------
    ValueError
        If nothing was measured together with a peer.
    """
    bars = read_bars(result)
    if not bars:
        raise ValueError("chart: a workload must have a peer, got none; name workloads with peers")
    end = max(_LEAST_END, *(bar.share for bar in bars))
    unit = (WIDTH - 2 * _MARGIN - _NOTE_WIDTH) / end
    bottom = _TOP + _STEP * len(bars)
    height = bottom + 52
    machine = result["machine"]
    peers = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    where = f"{machine['date']}, {machine['cores']} cores of {machine['processor']}"
    rows = [_row(bar, _TOP + _STEP * index, unit) for index, bar in enumerate(bars)]
    line = _MARGIN + unit
    # The line is drawn only next to the bars, so it does not cross their titles.
    dashes = "".join(f"M{line:.1f} {_TOP + _STEP * i + 13}v24" for i in range(len(bars)))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" role="img" '
        'aria-label="opwright compared with its peers">\n'
        f"<style>\n{_STYLE}</style>\n"
        f'<rect class="paper" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>\n'
        f'<text class="title" x="{_MARGIN}" y="28">Time of opwright relative to the best '
        "peer</text>\n"
        f'<text class="faint" x="{_MARGIN}" y="48">shorter is better; the dashed line is the best '
        "peer</text>\n"
        f"{''.join(rows)}"
        f'<path class="peer" d="{dashes}"/>\n'
        f'<text class="faint" x="{line:.1f}" y="{_TOP - 14}" text-anchor="middle">1</text>\n'
        f'<text class="faint" x="{_MARGIN}" y="{bottom + 18}">{escape(where)}; medians by make '
        "bench</text>\n"
        f'<text class="faint" x="{_MARGIN}" y="{bottom + 36}">compared with '
        f"{escape(peers)}</text>\n"
        "</svg>\n"
    )


def _row(bar: Bar, y: int, unit: float) -> str:
    kind = "bar" if bar.share <= 1 else "bar slower"
    width = bar.share * unit
    right = _MARGIN + max(width, unit) + 10
    return (
        f'<text x="{_MARGIN}" y="{y + 10}">{escape(bar.title)}</text>\n'
        f'<rect class="{kind}" x="{_MARGIN}" y="{y + 17}" width="{width:.1f}" '
        f'height="{_BAR_HEIGHT}" rx="3"/>\n'
        f'<text x="{right:.1f}" y="{y + 30}">{bar.share:.2f}</text>\n'
        f'<text class="faint" x="{right + 40:.1f}" y="{y + 30}">{escape(bar.note)}</text>\n'
    )


def main() -> int:
    """Draw the result file named on the command line."""
    if len(sys.argv) != 3:
        sys.exit("chart.py: must be given two files, RESULT.json CHART.svg")
    result = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    Path(sys.argv[2]).write_text(draw_chart(result), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
