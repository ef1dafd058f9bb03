"""A kernel that terminates the process or never returns is reported; the check continues."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from opwright.errors import CommandError
from opwright_kit.testing import IsolatedCheck

PACKAGE = "opwright-broken-returns"
LIMIT = "--time-limit=3"


@pytest.fixture
def environ(control_site: Path) -> dict[str, str]:
    plugins = "std,broken_returns"
    return {**os.environ, "PYTHONPATH": str(control_site), "OPWRIGHT_PLUGINS": plugins}


@pytest.fixture(scope="module")
def card(control_site: Path) -> dict[str, Any]:
    """The command's report on kernels that terminate the process or never return."""
    env = {**os.environ, "PYTHONPATH": str(control_site), "OPWRIGHT_PLUGINS": "std,broken_returns"}
    command = [sys.executable, "-m", "opwright", "check", PACKAGE, LIMIT, "--json"]
    command += ["--rule", "returns", "--rule", "reference"]
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 1, done.stderr
    data: dict[str, Any] = json.loads(done.stdout)
    return data


@pytest.mark.parametrize(
    ("kernel", "end", "sample"),
    [
        ("faults", "crashed with SIGSEGV", "x float32[0] (empty)"),
        ("aborts", "crashed with SIGABRT", "x float32[0] (empty)"),
        ("exits", "ended the process with exit code 3", "x float32[0] (empty)"),
        ("loops", "took more than 3 s", "x float32[9] (length 9)"),
        ("spins", "took more than 3 s", "x float32[9] (length 9)"),
    ],
)
def test_an_endless_call_is_reported_with_kernel_and_sample(
    card: dict[str, Any], kernel: str, end: str, sample: str
) -> None:
    subject = f"broken_returns.{kernel}[cpu, broken_returns]"
    key = f"broken_returns.{kernel}[cpu, float32, broken_returns]"
    results = {r["rule"]: r for r in card["results"] if r["subject"] == subject}
    (finding,) = results["returns"]["findings"]
    assert finding["message"].startswith(
        f"{subject}: every run must return, got one that {end} in {key}; "
    )
    assert finding["sample"] == sample
    assert finding["repeat"].endswith(f"--dtype float32 --seed 0 --sample {finding['number']}")
    assert results["reference"]["state"] == "skipped"
    assert results["reference"]["reason"] == "the rule 'returns' ended its process"


def test_the_finding_for_a_device_whose_arrays_wait_for_its_lock_names_the_hanging_function(
    environ: dict[str, str],
) -> None:
    name = "broken_garbage_collection"
    package = "opwright-broken-garbage-collection"
    command = [sys.executable, "-m", "opwright", "check", package, "--json"]
    command += ["--rule", "garbage-collection"]
    environ["OPWRIGHT_PLUGINS"] = f"std,{name}"
    done = subprocess.run(
        command, env=environ, capture_output=True, text=True, check=False, timeout=600
    )
    found = [each for result in json.loads(done.stdout)["results"] for each in result["findings"]]
    (finding,) = found
    assert finding["message"].startswith(f"{package}: device {name} must work while")
    assert "got a hang in allocate; " in finding["message"]


def test_an_index_that_a_kernel_does_not_check_is_reported_with_its_value(
    environ: dict[str, str],
) -> None:
    subject = "broken_returns.picks[cpu, broken_returns]"
    command = [sys.executable, "-m", "opwright", "check", PACKAGE, "--json"]
    command += ["--rule", "out-of-range", "--subject", subject]
    done = subprocess.run(
        command, env=environ, capture_output=True, text=True, check=False, timeout=600
    )
    ((finding,),) = [result["findings"] for result in json.loads(done.stdout)["results"]]
    assert "got one that crashed with SIGSEGV" in finding["message"]
    assert re.search(r"\(index holds -?\d+\)$", finding["sample"])


def test_later_subjects_are_still_checked(card: dict[str, Any]) -> None:
    fine = [r for r in card["results"] if r["subject"].startswith("broken_returns.fine[")]
    assert {r["rule"]: r["state"] for r in fine}["returns"] == "passed"


def test_one_process_checks_all_subjects_that_return() -> None:
    with IsolatedCheck("opwright-std", subject="relu", rules=["documented", "returns"]) as check:
        before = _children(os.getpid())
        states = {check.apply(*each).state for each in check.planned}
        assert states == {"passed"}
        assert _children(os.getpid()) == before


def test_pytest_reports_endless_calls(environ: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    command += [
        "-p",
        "opwright_kit.pytest_plugin",
        f"--opwright-check={PACKAGE}",
        "-k",
        "cpu and (faults or fine)",
    ]
    done = subprocess.run(
        command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "got one that crashed with SIGSEGV" in done.stdout
    assert "1 failed, " in done.stdout
    assert f"{PACKAGE}::broken_returns.fine[cpu, broken_returns]::returns" not in done.stdout


def test_an_interrupt_terminates_the_child_process(environ: dict[str, str]) -> None:
    command = [sys.executable, "-m", "opwright", "check", PACKAGE, "--subject"]
    command += ["broken_returns.spins[cpu, broken_returns]", "--time-limit=100"]
    with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True) as started:
        child = _wait_for_child(started.pid)
        started.send_signal(signal.SIGINT)
        _, said = started.communicate(timeout=600)
    assert started.returncode == 130
    assert "check: interrupted" in said
    assert not Path(f"/proc/{child}").exists()


def test_the_child_process_exits_if_the_check_is_killed(environ: dict[str, str]) -> None:
    command = [sys.executable, "-m", "opwright", "check", PACKAGE, "--subject"]
    command += ["broken_returns.spins[cpu, broken_returns]", "--time-limit=100"]
    with subprocess.Popen(command, env=environ, stderr=subprocess.DEVNULL) as started:
        child = _wait_for_child(started.pid)
        started.kill()
    _wait_until_gone(child)


def test_a_child_process_that_exits_before_listing_the_plugins_raises(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os\nos._exit(7)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(
        CommandError, match="plugins must load, got plugins that ended .* with exit code 7"
    ):
        IsolatedCheck("opwright-std")


def test_an_isolated_check_raises_the_error_of_a_check_in_this_process() -> None:
    with pytest.raises(CommandError, match="check: unknown rule, got 'refrence'"):
        IsolatedCheck("opwright-std", rules=["refrence"])


def _children(parent: int) -> list[int]:
    listed = Path(f"/proc/{parent}/task/{parent}/children")
    return [int(word) for word in listed.read_text().split()]


def _wait_for_child(parent: int) -> int:
    """Return the id of the process that a check started, as soon as it runs kernels."""
    for _ in range(6000):
        for child in _children(parent):
            if "libreturns" in Path(f"/proc/{child}/maps").read_text():
                return child
        time.sleep(0.1)
    raise AssertionError("no process was started")


def _wait_until_gone(process: int) -> None:
    for _ in range(6000):
        status = Path(f"/proc/{process}/stat")
        if not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.1)
    raise AssertionError(f"process {process} is still running")
