"""The example that draws a timeline of the steps of all processes works."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "draw_a_timeline.py"


def test_a_trace_has_a_lane_for_each_process(run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install matplotlib")
    folder = tmp_path / "timeline"
    ended = run(EXAMPLE.read_text(encoding="utf-8"), 2, arguments=("--folder", folder))
    assert ended.returncode == 0, ended.stderr
    events = json.loads((folder / "timeline.json").read_text(encoding="utf-8"))["traceEvents"]
    labels = {event["pid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    assert labels == {0: "rank 0", 1: "rank 1"}
    for rank in labels:
        lanes = {event["tid"] for event in events if event["ph"] == "X" and event["pid"] == rank}
        assert lanes == {"compute", "wait"}
    assert (folder / "timeline.svg").read_text(encoding="utf-8").rstrip().endswith("</svg>")
