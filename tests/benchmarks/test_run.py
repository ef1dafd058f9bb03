"""The benchmark runner, tested with workloads that do not need real peers."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
WORKLOADS = Path(__file__).parent / "workloads"


SVG = "{http://www.w3.org/2000/svg}"


def load_chart() -> ModuleType:
    """Import the module that draws the chart, as run.py does."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return importlib.import_module("chart")
    finally:
        sys.path.remove(str(BENCHMARKS))


def make_found(implementation: str, ratio: float) -> dict[str, Any]:
    return {"implementation": implementation, "median": 10.0, "ratio_to_best_peer": ratio}


def make_result(unit: str, more_is_better: bool, found: list[dict[str, Any]]) -> dict[str, Any]:
    workload = {"name": "w", "title": "A < B", "unit": unit, "results": found}
    workload |= {"more_is_better": more_is_better, "best_peer": "peer"}
    machine = {"date": "2026-11-23", "cores": 2, "processor": "a processor"}
    return {"machine": machine, "versions": {"numpy": "2"}, "workloads": [workload]}


def run(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, BENCHMARKS / "run.py", "--rounds", "2", "--seconds", "0.01", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


@pytest.fixture
def measure(tmp_path: Path) -> Any:
    def measure(name: str) -> tuple[subprocess.CompletedProcess[str], dict[str, dict[str, Any]]]:
        out = tmp_path / "out.json"
        done = run(name, "--folder", str(WORKLOADS), "--json", str(out))
        (workload,) = json.loads(out.read_text())["workloads"]
        return done, {result["implementation"]: result for result in workload["results"]}

    return measure


def test_every_implementation_is_compared_with_the_best_peer(measure: Any) -> None:
    done, found = measure("good")
    assert done.returncode == 0, done.stdout + done.stderr
    peers = [found["peer"]["median"], found["noisy"]["median"]]
    assert found["opwright"]["ratio_to_best_peer"] == found["opwright"]["median"] / min(peers)
    # Two rounds have at least five repeats each, including disturbed repeats.
    repeats = found["peer"]["repeats"] + (
        0 if found["peer"]["is_noisy"] else found["peer"]["disturbed_repeats"]
    )
    assert repeats >= 10


def test_goals_are_evaluated(measure: Any) -> None:
    done, found = measure("good")
    assert [goal["reached"] for goal in found["opwright"]["goals"]] == [True, False]
    assert "≤ 100 of the best peer: reached" in done.stdout
    assert "≤ 0 ns: missed" in done.stdout


def test_an_unavailable_implementation_is_reported_without_a_timing(measure: Any) -> None:
    done, found = measure("good")
    assert found["absent"]["problem"] == "not available: nobody sells it"
    assert "not available: No module named" in found["uninstalled"]["problem"]
    assert "median" not in found["absent"]
    assert "not available: nobody sells it" in done.stdout


def test_a_failing_peer_is_reported_and_the_other_peers_are_measured(measure: Any) -> None:
    done, found = measure("bad")
    assert done.returncode == 1
    assert found["failing"]["problem"] == "failed: ValueError: it broke"
    assert "ended with status 3" in found["dying"]["problem"]
    assert "ended with status 4" in found["dying later"]["problem"]
    assert "ended with status 5 behind its rounds" in found["dying last"]["problem"]
    assert found["opwright"]["median"] > 0
    assert found["opwright"]["ratio_to_best_peer"] > 0


def test_an_implementation_with_wrong_results_is_reported_and_is_never_the_best_peer(
    measure: Any,
) -> None:
    done, found = measure("wrong")
    assert done.returncode == 1
    assert "DISAGREES with peer by 2.2e-02" in found["wrong"]["problem"]
    assert "DISAGREES with peer by nan" in found["nan"]["problem"]
    # These kernels do nothing, so they would be the fastest.
    assert found["opwright"]["ratio_to_best_peer"] == (
        found["opwright"]["median"] / found["peer"]["median"]
    )


def test_our_function_accepts_peer_arrays(measure: Any) -> None:
    done, found = measure("lent")
    assert done.returncode == 0, done.stdout + done.stderr
    assert found["opwright"]["median"] > 0


def test_the_table_for_the_documents_names_the_machine(tmp_path: Path) -> None:
    table = tmp_path / "out.md"
    assert run("good", "--folder", str(WORKLOADS), "--markdown", str(table)).returncode == 0
    machine, _, head, _, row = table.read_text().strip().split("\n")
    assert machine.startswith("Measured on ")
    assert head == "| what | ours | best peer | ratio | goal |"
    assert row.startswith("| all is well | ")
    assert "missed" in row


def test_the_error_for_an_unknown_workload_lists_the_known_workloads() -> None:
    done = run("godo", "--folder", str(WORKLOADS))
    assert done.returncode == 1
    assert "no workload is called 'godo'; there are: good, bad, lent, wrong" in done.stderr


def test_the_real_workloads_can_be_listed_without_peers() -> None:
    done = run("--list")
    assert done.returncode == 0, done.stderr
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert len(names) == len(set(names))
    assert {"chain", "call", "mlp-train-64", "resnet18-infer-1", "gemm-1024"} <= set(names)


def test_the_gpu_workloads_can_be_listed_without_a_gpu() -> None:
    done = run("--list", "--folder", str(BENCHMARKS / "cuda"))
    assert done.returncode == 0, done.stderr
    names = {line.split()[0] for line in done.stdout.splitlines()}
    assert {"bandwidth-softmax", "gemm-8192-bfloat16", "mlp-train-1024"} <= names
    assert {"lenet-train-64", "resnet18-train-64"} <= names


def test_without_a_gpu_opwright_is_unavailable_with_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if shutil.which("nvidia-smi") is not None:
        pytest.skip("there is a GPU")
    monkeypatch.delenv("OPWRIGHT_CUDA_DRIVER", raising=False)  # set by an earlier test
    done = run("bandwidth-relu", "--folder", str(BENCHMARKS / "cuda"), "--only", "opwright")
    assert done.returncode == 0, done.stdout
    assert "not available: CUDA: NVIDIA's driver is not installed" in done.stdout


@pytest.mark.long("it compiles the kernels of a network for the emulator")
def test_a_gpu_workload_can_run_in_the_emulator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPWRIGHT_BENCH_DRY", "1")
    options = ["--folder", str(BENCHMARKS / "cuda"), "--only", "opwright", "--together", "2"]
    done = run("bandwidth-relu", "bandwidth-copy", *options, "--rounds", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" GB/s ") == 2


def test_a_step_of_two_processes_is_timed_in_the_first_process(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    done = run("dist-allreduce-1kb", "--only", "opwright*", "--json", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    (workload,) = json.loads(out.read_text())["workloads"]
    for found in workload["results"]:
        assert found["repeats"] >= 10, found
        assert found["least"] <= found["best_tenth"] <= found["median"]


def test_the_chart_compares_opwright_with_the_best_peer_and_shows_date_and_processor(
    tmp_path: Path,
) -> None:
    chart, out = tmp_path / "out.svg", tmp_path / "out.json"
    done = run("good", "--folder", str(WORKLOADS), "--json", str(out), "--chart", str(chart))
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(out.read_text())
    drawn = ElementTree.parse(chart).getroot()
    texts = [text.text or "" for text in drawn.iter(f"{SVG}text")]
    (workload,) = result["workloads"]
    (ours,) = [found for found in workload["results"] if found["implementation"] == "opwright"]
    assert f"{ours['ratio_to_best_peer']:.2f}" in texts
    assert any(workload["best_peer"] in text for text in texts)
    assert any(result["machine"]["date"] in text for text in texts)
    assert any(result["machine"]["processor"] in text for text in texts)


def test_a_rate_is_drawn_as_a_time_and_each_of_our_implementations_has_a_bar() -> None:
    slow, quick = make_found("opwright", 0.5), make_found("opwright, tuned", 2.0)
    bars = load_chart().read_bars(make_result("GB/s", True, [slow, quick]))
    assert [bar.share for bar in bars] == [2.0, 0.5]
    bars = load_chart().read_bars(make_result("ns", False, [slow, quick]))
    assert [bar.share for bar in bars] == [0.5, 2.0]
    assert [bar.title for bar in bars] == ["A < B (opwright)", "A < B (opwright, tuned)"]


def test_the_chart_is_readable_on_dark_pages_and_has_no_external_resources() -> None:
    svg = load_chart().draw_chart(make_result("ns", False, [make_found("opwright", 1.5)]))
    assert "@media (prefers-color-scheme: dark)" in svg
    assert not {"href", "src", "url("} & set(re.findall(r"href|src|url\(", svg))
    names = {name for text in re.findall(r'class="([^"]+)"', svg) for name in text.split()}
    light, dark = svg.split("@media")
    for name in names:
        assert f".{name} {{" in light, name
        assert f".{name} {{" in dark or name == "title", name


def test_bars_stay_within_the_chart_even_if_opwright_is_slow() -> None:
    chart = load_chart()
    found = [make_result("ns", False, [make_found("opwright", ratio)]) for ratio in (0.01, 1, 40)]
    for result in found:
        drawn = ElementTree.fromstring(chart.draw_chart(result))
        bars = [rect for rect in drawn.iter(f"{SVG}rect") if rect.get("class", "")[:3] == "bar"]
        assert len(bars) == 1
        assert float(bars[0].get("x", "")) + float(bars[0].get("width", "")) < chart.WIDTH


def test_without_a_measured_peer_there_is_no_chart() -> None:
    with pytest.raises(ValueError, match="a workload must have a peer, got none; name workloads"):
        load_chart().draw_chart(make_result("ns", False, [{"implementation": "opwright"}]))


def test_the_committed_chart_states_date_and_machine() -> None:
    (chart,) = (ROOT / "docs").glob("figures/*benchmarks.svg")
    text = chart.read_text(encoding="utf-8")
    assert re.search(r">20\d\d-\d\d-\d\d, \d+ cores of ", text)
    assert "docs/figures/benchmarks.svg" in (ROOT / "README.md").read_text(encoding="utf-8")
