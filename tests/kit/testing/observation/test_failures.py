"""If the machine lacks a requirement of a kernel, rules for the kernel are skipped, not failed."""

from __future__ import annotations

import pytest

from opwright import Context
from opwright_kit.testing import Scorecard, check_package, load_rules

RULES = [rule.name for rule in load_rules() if rule.name != "import-cost"]


@pytest.fixture(scope="module")
def card(controls: Context) -> Scorecard:
    return check_package("opwright-lacking", rules=RULES, context=controls)


@pytest.mark.parametrize(
    ("operator", "reason"),
    [
        ("module", "No module named 'nowhere_installed'"),
        ("module_in_run", "No module named 'nowhere_installed'"),
        (
            "library",
            "lacking: libnowhere must be installed, got libnowhere.so: cannot open; get it",
        ),
    ],
)
def test_a_missing_requirement_skips_rules_and_states_the_reason(
    card: Scorecard, operator: str, reason: str
) -> None:
    subject = f"lacking.{operator}[cpu, lacking]"
    results = {result.rule: result for result in card.results if result.subject == subject}
    assert {result.state for result in results.values()} <= {"skipped", "passed"}
    expected = f"this machine lacks what the kernel needs: {reason}"
    assert results["shape-rule"].reason == results["reference"].reason == expected


def test_a_dtype_unavailable_on_this_machine_is_skipped_and_other_dtypes_are_checked(
    card: Scorecard,
) -> None:
    subject = "lacking.processor[cpu, lacking]"
    results = {result.rule: result for result in card.results if result.subject == subject}
    assert results["refusals"].reason == (
        "float64: this machine lacks what the kernel needs: a processor with instructions for "
        "float64"
    )
    assert results["reference"].state == "passed"


def test_the_reference_in_the_same_package_is_checked(card: Scorecard) -> None:
    states = {
        result.state
        for result in card.results
        if result.subject == "lacking.library[cpu, numpy]" and result.rule == "shape-rule"
    }
    assert states == {"passed"}


def test_a_missing_module_of_the_package_itself_is_reported(card: Scorecard) -> None:
    found = {(finding.subject, finding.rule) for finding in card.findings}
    assert found == {("lacking.own_module[cpu, lacking]", "shape-rule")}
    assert "No module named 'opwright_lacking.forgotten'" in card.findings[0].message
