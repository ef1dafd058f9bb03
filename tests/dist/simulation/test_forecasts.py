"""Predictions of a step account for waiting, stragglers and failures, and name the bottleneck."""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path

import pytest

from opwright_dist import DistError
from opwright_simulation import (
    REMEDIES,
    Compute,
    Cost,
    Link,
    Network,
    Reliability,
    Start,
    Step,
    Wait,
    draw_timelines,
    get_network,
    play,
    simulate,
    step_of_layers,
    write_trace,
)
from opwright_simulation.forecasts import expected_maximum

ROOT = Path(__file__).parents[3]
STEP = Step((Compute(1.0, "a"), Start(0, "all_reduce", 100), Compute(2.0, "b"), Wait(0)), 32)
FREE = Network("free", 8, Link(0.0, 1e30), Link(0.0, 1e30))


def second(seconds):
    return lambda start: Cost(0.0, seconds, "ring")


def test_a_collective_that_finishes_before_it_is_awaited_is_hidden():
    line = play(STEP, second(1.5))
    assert (line.step_s, line.wait_s) == (3.0, 0.0)


def test_the_rest_of_a_collective_that_finishes_late_is_waiting_time():
    line = play(STEP, second(2.5))
    assert line.step_s == pytest.approx(3.5)
    assert line.wait_s == pytest.approx(0.5)


def test_a_collective_that_does_not_overlap_computation_is_never_hidden():
    assert play(STEP, second(1.5), overlap=0.0).step_s == pytest.approx(4.5)


def test_collectives_are_sent_sequentially():
    events = (Start(0, "all_reduce", 1), Start(1, "all_reduce", 1), Wait(0), Wait(1))
    line = play(Step(events), second(1.0))
    assert line.step_s == pytest.approx(2.0)
    network = [span for span in line.spans if span.lane == "network"]
    assert [(span.begin_s, span.end_s) for span in network] == [(0.0, 1.0), (1.0, 2.0)]


def test_each_timeline_is_a_process_in_the_chrome_trace(tmp_path):
    target = tmp_path / "trace.json"
    write_trace(target, {"slow": play(STEP, second(2.5)), "quick": play(STEP, second(0.1))})
    events = json.loads(target.read_text())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    names = [event["args"]["name"] for event in events if event["ph"] == "M"]
    assert names == ["slow", "quick"]
    assert {span["tid"] for span in spans} == {"compute", "network", "wait"}
    assert max(s["ts"] + s["dur"] for s in spans if s["pid"] == 0) == pytest.approx(3.5e6)


def test_timelines_can_be_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    target = tmp_path / "timelines.png"
    draw_timelines({"rank 0": play(STEP, second(2.5))}, target)
    assert target.read_bytes().startswith(b"\x89PNG")


def test_layers_are_sent_in_buckets_from_the_last_to_the_first():
    step = step_of_layers([(0.3, 50), (0.3, 60), (0.3, 10)], bucket_bytes=64, update_s=0.1)
    sent = [event.size_bytes for event in step.events if isinstance(event, Start)]
    assert sent == [70, 50]
    assert step.sent_bytes == 120
    assert step.compute_s == pytest.approx(1.0)


def test_layers_must_be_pairs_of_nonnegative_seconds_and_bytes():
    with pytest.raises(DistError, match="layers must be pairs of non-negative seconds and bytes"):
        step_of_layers([])
    with pytest.raises(DistError, match="non-negative"):
        step_of_layers([(0.1, -1)])


@pytest.mark.parametrize(
    ("n", "mean"), [(1, 0.0), (2, 1 / math.sqrt(math.pi)), (10, 1.538753), (100, 2.507594)]
)
def test_the_expected_maximum_of_many_samples_matches_tables(n, mean):
    assert expected_maximum(n) == pytest.approx(mean, abs=2e-5)


def test_all_processes_wait_for_the_slowest_process():
    report = simulate(STEP, [1, 2], [FREE], spread=0.1)
    alone, two = report.forecasts
    assert alone.straggling_s == 0
    assert two.step_s == pytest.approx(3.0 * (1 + 0.1 / math.sqrt(math.pi)))
    assert two.limit == "stragglers"


def test_youngs_checkpoint_interval_is_nearly_optimal():
    reliability = Reliability(rank_mtbf_s=1e7, checkpoint_s=20, restart_s=100)
    best = reliability.best_interval_s(1000)
    share = reliability.useful_share(1000)
    for factor in (0.5, 2.0):
        other = reliability._replace(interval_s=factor * best)
        assert other.useful_share(1000) < share
    assert reliability.useful_share(100) > share


def test_without_failures_only_checkpoints_take_time():
    assert Reliability().useful_share(4096) == 1
    assert Reliability(interval_s=90, checkpoint_s=10).useful_share(4096) == pytest.approx(0.9)


def test_the_useful_time_is_zero_if_restarts_take_longer_than_the_time_between_failures():
    assert Reliability(rank_mtbf_s=1.0, restart_s=1e4).useful_share(4096) == 0


def test_losses_and_efficiency_add_up_to_1():
    step = step_of_layers([(0.1, 400_000_000), (0.3, 60_000_000)], examples=64)
    reliability = Reliability(rank_mtbf_s=1e8)
    report = simulate(
        step, [1, 8, 512], [get_network("ethernet")], spread=0.05, reliability=reliability
    )
    for forecast in report.forecasts:
        assert forecast.efficiency + sum(forecast.losses.values()) == pytest.approx(1.0)
        assert forecast.limit in REMEDIES
    assert report.forecasts[-1].limit == "bandwidth"
    assert report.forecasts[0].examples_per_s == pytest.approx(64 / 0.4, rel=0.01)


def test_a_printed_report_has_one_row_per_forecast_and_lists_remedies():
    text = str(simulate(STEP, [2, 4096], [FREE], spread=0.1))
    assert len([line for line in text.splitlines() if line.lstrip().startswith("free")]) == 2
    assert f"stragglers: {REMEDIES['stragglers']}" in text


def test_a_report_can_be_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    target = tmp_path / "efficiency.svg"
    simulate(STEP, [2, 8], [FREE, get_network("ethernet")]).plot(target)
    assert "ethernet" in target.read_text() or target.stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"ranks": []}, "ranks and networks must not be empty"),
        ({"ranks": [0]}, "ranks must be at least 1, got 0"),
        ({"spread": 1.0}, r"spread must be a fraction in \[0, 1\), got 1.0"),
        ({"reliability": Reliability(rank_mtbf_s=0)}, "rank_mtbf_s must be more than 0 seconds"),
        ({"reliability": Reliability(restart_s=-1)}, "restart_s must be finite and at least 0"),
    ],
)
def test_simulation_arguments_out_of_range_are_refused(arguments, rule):
    with pytest.raises(DistError, match=rule):
        simulate(STEP, **{"ranks": [2], "networks": [FREE], **arguments})


@pytest.mark.parametrize(
    ("network", "images_per_s", "measured"), [("resnet101", 129, 0.90), ("vgg16", 154, 0.68)]
)
def test_published_measurements_are_predicted_within_30_percent(network, images_per_s, measured):
    spec = importlib.util.spec_from_file_location(
        "predict_scaling", ROOT / "examples" / "predict_scaling.py"
    )
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    layers = getattr(example, network)()
    assert example.predict(layers, images_per_s) == pytest.approx(measured, rel=0.3)
