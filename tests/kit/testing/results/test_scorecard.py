"""The scorecard reports passed, failed and skipped rules as text and as data."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from opwright_kit.testing import Finding, Result, Scorecard, load_rules
from opwright_kit.testing.results.text import format_junit, format_scorecard


@pytest.fixture
def card() -> Scorecard:
    card = Scorecard("opwright-acme", "1.0", seed=7)
    kernel = "acme.swish[cpu, acme]"
    finding = Finding(
        "reference", kernel, f"{kernel}: out[0] is 1, 2 by numpy", "x float32[1]", 4, "float32"
    )
    card.add(Result("acme.swish", "documented", "passed"))
    card.add(Result("acme.swish", "gradient", "skipped", reason="declared to have none"))
    card.add(Result(kernel, "reference", "failed", findings=(finding,)))
    return card


def test_the_scorecard_has_a_line_with_result_counts_for_each_subject(card: Scorecard) -> None:
    lines = format_scorecard(card).splitlines()
    assert lines[0] == "opwright-acme 1.0, seed 7"
    assert lines[3].split() == ["acme.swish", "1", "0", "1", "good"]
    assert lines[4].split() == ["acme.swish[cpu,", "acme]", "0", "1", "0", "reference"]
    assert lines[-1] == "1 passed, 1 failed, 1 skipped; 1 found"


def test_a_finding_is_reported_with_its_sample_and_a_command_that_reproduces_it(
    card: Scorecard,
) -> None:
    text = format_scorecard(card)
    assert "reference: acme.swish[cpu, acme]: out[0] is 1, 2 by numpy" in text
    assert "  sample: x float32[1]" in text
    assert (
        "  to reproduce it: opwright check opwright-acme --rule reference "
        "--subject 'acme.swish[cpu, acme]' --dtype float32 --seed 7 --sample 4" in text
    )


def test_a_reason_is_reported_once_for_all_subjects_that_share_it(card: Scorecard) -> None:
    card.add(Result("acme.other", "gradient", "skipped", reason="declared to have none"))
    text = format_scorecard(card)
    assert text.count("declared to have none") == 1
    assert "acme.swish and 1 more: declared to have none" in text


def test_the_json_data_has_the_content_of_the_scorecard(card: Scorecard) -> None:
    data = json.loads(json.dumps(card.to_json()))
    assert (data["ok"], data["seed"], data["distribution"]) == (False, 7, "opwright-acme")
    assert data["counts"] == {"passed": 1, "failed": 1, "skipped": 1}
    (found,) = data["results"][2]["findings"]
    assert found["repeat"].endswith("--seed 7 --sample 4")


def test_a_scorecard_without_findings_passes() -> None:
    card = Scorecard("opwright-acme", "1.0", seed=0)
    card.add(Result("acme.swish", "documented", "passed"))
    assert card.ok
    assert format_scorecard(card).endswith("1 passed, 0 failed, 0 skipped; nothing found")


def test_the_page_lists_every_rule_with_its_summary() -> None:
    page = Path(__file__).parents[4] / "docs" / "check_a_plugin.md"
    listed = re.findall(r"^\| `([\w-]+)` \| (.*) \|$", page.read_text(), re.MULTILINE)
    assert listed == [(rule.name, rule.summary) for rule in load_rules()]


def test_a_scorecard_with_an_unchecked_subject_does_not_pass(card: Scorecard) -> None:
    card.results = [result for result in card.results if result.state == "skipped"]
    assert format_scorecard(card).splitlines()[3].endswith("not checked")


def test_junit_has_a_test_for_each_rule_on_each_subject(card: Scorecard) -> None:
    (suite,) = ElementTree.fromstring(format_junit(card))
    assert suite.attrib == {
        "name": "opwright-acme",
        "tests": "3",
        "failures": "1",
        "errors": "0",
        "skipped": "1",
    }
    passed, skipped, failed = suite
    assert (passed.get("classname"), passed.get("name")) == ("acme.swish", "documented")
    assert skipped[0].attrib == {"message": "declared to have none"}
    assert "to reproduce it: opwright check" in (failed[0].text or "")


def test_junit_escapes_characters_invalid_in_xml(card: Scorecard) -> None:
    finding = card.findings[0]._replace(message="got '\x00' & <")
    card.add(Result("acme.swish", "reference", "failed", findings=(finding,)))
    failure = ElementTree.fromstring(format_junit(card))[0][3][0]
    assert failure.get("message") == r"got '\x00' & <"


def test_a_traceback_is_printed_below_its_finding(card: Scorecard) -> None:
    text = card.format_findings([card.findings[0]._replace(traceback="Traceback:\nValueError: 1")])
    assert "\n  Traceback:\n  ValueError: 1\n  to reproduce it" in text
