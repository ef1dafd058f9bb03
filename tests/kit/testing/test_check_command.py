"""``opwright check`` and ``pytest --opwright-check``, run as processes on installed packages."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from opwright import Context
from opwright.errors import OpwrightError
from opwright_kit.testing import PackageCheck
from opwright_kit.testing.check import package

QUICK = ("--rule", "documented", "--rule", "shape-rule", "--rule", "reference")


def run(site: Path, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a Python module with the control packages added to the path."""
    env = {**os.environ, "PYTHONPATH": str(site), "OPWRIGHT_PLUGINS": "std,good,broken_reference"}
    command = [sys.executable, "-m", *words]
    return subprocess.run(
        command, env=env, cwd=cwd, capture_output=True, text=True, check=False, timeout=600
    )


def test_a_package_without_faults_passes(control_site: Path) -> None:
    done = run(control_site, "opwright", "check", "opwright-good", *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 failed" in done.stdout
    assert done.stdout.rstrip().endswith("nothing found")


def test_the_command_writes_junit_xml(control_site: Path, tmp_path: Path) -> None:
    words = ("opwright", "check", "opwright-good", "--rule", "documented", "--junit")
    done = run(control_site, *words, str(tmp_path / "checked.xml"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert 'name="documented"' in (tmp_path / "checked.xml").read_text()
    refused = run(control_site, *words, str(tmp_path))
    assert refused.returncode == 2
    assert "--junit must name a file that can be written, got" in refused.stderr


def test_the_printed_command_reproduces_a_finding(control_site: Path) -> None:
    done = run(control_site, "opwright", "check", "opwright_Broken.reference", *QUICK, "--json")
    assert done.returncode == 1
    data = json.loads(done.stdout)
    findings = [finding for result in data["results"] for finding in result["findings"]]
    assert {finding["rule"] for finding in findings} == {"reference"}
    words = shlex.split(findings[0]["repeat"])
    again = run(control_site, *words)
    assert again.returncode == 1
    assert findings[0]["message"] in again.stdout
    assert "1 found" in again.stdout


def test_the_error_for_an_unknown_distribution_lists_the_installed_distributions(
    control_site: Path,
) -> None:
    done = run(control_site, "opwright", "check", "opwright-god")
    assert done.returncode == 2
    assert "no installed distribution of this name provides a plugin" in done.stderr
    assert "got 'opwright-god'; did you mean 'opwright-good'?" in done.stderr
    assert "Traceback" not in done.stderr
    done = run(control_site, "opwright", "check", "Good")
    assert "got 'Good'; did you mean 'opwright-good'?" in done.stderr


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"rules": ["refrence"]}, "unknown rule, got 'refrence'; did you mean 'reference'"),
        ({"subject": "good.row_sum"}, "got 'good.row_sum'; did you mean 'good.row_sums'"),
        ({"sample": 999}, r"must be in \[0, 27\) for this package, got 999"),
        ({"dtype": "float31"}, "unknown dtype, got 'float31'; did you mean 'float32'"),
    ],
)
def test_the_error_for_an_unknown_name_suggests_the_nearest_name(
    controls: Context, option: dict[str, Any], message: str
) -> None:
    with pytest.raises(OpwrightError, match=f"^check: .*{message}"):
        PackageCheck("opwright-good", context=controls, **option)


def test_a_sampler_for_an_operator_that_the_package_lacks_is_refused(
    controls: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package, "load_samplers", lambda: {"good.pik": lambda draw: None})
    with pytest.raises(OpwrightError, match="must name its operators, got good.pik: .*"):
        PackageCheck("opwright-good", context=controls)


def test_a_rule_that_applies_to_nothing_is_refused(control_site: Path) -> None:
    words = ("--subject", "good.pick[cpu, good]", "--rule", "gradient")
    done = run(control_site, "opwright", "check", "opwright-good", *words)
    assert done.returncode == 2
    rule = "a rule must apply to good.pick[cpu, good]"
    assert f"{rule}, got only rules that do not apply: gradient" in done.stderr


def test_a_sampler_that_raises_is_reported_once_with_its_traceback(
    controls: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    def draw_pick(draw: Any) -> Any:
        return draw.nonsense

    monkeypatch.setattr(package, "load_samplers", lambda: {"good.pick": draw_pick})
    card = package.check_package("opwright-good", subject="good.pick", context=controls)
    (finding,) = card.findings
    assert "samples must be drawn, got AttributeError: 'Draw' object has no" in finding.message
    assert "in draw_pick for good.pick in float32; fix the function" in finding.message
    assert finding.traceback.startswith("Traceback (most recent call last):\n")
    assert "in draw_pick\n    return draw.nonsense\n" in finding.traceback
    reasons = {result.reason for result in card.results if result.state == "skipped"}
    assert "the function that draws its samples raises an error, reported once" in reasons


def test_pytest_runs_each_rule_as_a_test(control_site: Path, tmp_path: Path) -> None:
    asked = "addopts = -p opwright_kit.pytest_plugin\nopwright_check = opwright-broken-reference\n"
    (tmp_path / "pytest.ini").write_text(f"[pytest]\n{asked}")
    done = run(
        control_site,
        "pytest",
        "-v",
        "-p",
        "no:cacheprovider",
        "-k",
        "tail and reference",
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert "broken_reference.tail[cpu, broken_reference]::reference" in done.stdout
    assert "to reproduce it: opwright check opwright-broken-reference" in done.stdout
    assert "1 failed" in done.stdout


def test_pytest_does_not_import_opwright_if_no_package_is_named(tmp_path: Path) -> None:
    (tmp_path / "test_nothing.py").write_text(
        "import sys\n\ndef test_it():\n"
        "    assert not [name for name in sys.modules if name.split('.')[0] == 'opwright']\n"
        "    assert 'numpy' not in sys.modules\n"
    )
    done = run(tmp_path, "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
