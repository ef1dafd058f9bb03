"""``opwright doctor`` reports the state of services that packages use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sites import TABLE, Site, link_libraries


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A site without other packages."""
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    link_libraries(libraries)
    return Site(tmp_path / "site", libraries)


ANNEX = """
@plugin.hookimpl
def opwright_annexes(registry):
    registry.add("doctor", "{name}", "opwright_{name}.doctor:examine")
"""


def add_service(site: Site, text: str, name: str = "acme") -> None:
    """Install a distribution with a doctor check; `text` is the body of its function."""
    body = "".join(f"    {line}\n" for line in text.splitlines())
    code = f"from opwright.commands import Examination\n\ndef examine():\n{body}"
    site.add(name, TABLE + ANNEX, modules={"doctor": code})


GOOD = 'print("noise")\nreturn Examination({"library": "Acme 3", "self-test": "2 are right"})'


def test_doctor_prints_the_facts_about_a_service(site: Site) -> None:
    add_service(site, GOOD)
    done = site.command("doctor")
    assert "acme (opwright-acme 1.0)\n  library    Acme 3\n  self-test  2 are right" in done.stdout
    assert "noise" not in done.stdout
    assert done.stdout.splitlines()[-1] == "no problem found"
    assert done.returncode == 0


def test_services_can_be_printed_as_json(site: Site) -> None:
    add_service(site, GOOD)
    [service] = json.loads(site.command("doctor", "--json").stdout)["services"]
    assert service == {
        "name": "acme",
        "distribution": "opwright-acme 1.0",
        "facts": {"library": "Acme 3", "self-test": "2 are right"},
        "reason": "",
        "advice": "",
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('return Examination({}, "it is torn\\\\nhere", "pip install acme")', "it is torn"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", "crashed with SIGSEGV"),
        ("import os\nos._exit(3)", "ended the process with exit code 3"),
        ("return 1 / 0", "raised ZeroDivisionError: division by zero"),
        ("import time\ntime.sleep(1000)", "took more than 2 s"),
        ("return 3", "must return an opwright.commands.Examination, got 3"),
    ],
)
def test_a_broken_service_is_reported_with_the_fix(site: Site, text: str, reason: str) -> None:
    add_service(site, text)
    done = site.command("doctor", "--timeout", "2" if "sleep" in text else "60")
    assert f"{reason}" in done.stdout
    assert "  to fix it: pip install" in done.stdout
    assert done.stdout.splitlines()[-1] == "1 plugin needs fixing"
    assert done.returncode == 1


def test_the_error_for_an_invalid_return_value_is_shown(site: Site) -> None:
    add_service(site, "return 3")
    text = site.command("doctor").stdout
    assert "must return an opwright.commands.Examination, got 3" in text


def test_services_of_disabled_plugins_are_not_checked(site: Site) -> None:
    add_service(site, "return 1 / 0")
    site.add("other")
    done = site.command("doctor", OPWRIGHT_PLUGINS="other")
    assert "acme" not in done.stdout.partition("scan")[2]
    assert done.returncode == 0
