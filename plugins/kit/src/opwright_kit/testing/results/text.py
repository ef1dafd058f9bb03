"""Formats a scorecard for a terminal, and as JUnit XML for continuous integration."""

from __future__ import annotations

from xml.etree import ElementTree

from opwright.commands import align
from opwright_kit.testing.results.scorecard import FAILED, PASSED, SKIPPED, Scorecard

_TITLE = ("", "passed", "failed", "skipped", "")


def format_scorecard(card: Scorecard) -> str:
    """Return a line for each subject, then the findings and how to reproduce them, then totals."""
    lines = [f"{card.distribution} {card.version}, seed {card.seed}", ""]
    lines += align([_TITLE, *map(tuple, _rows(card))], right={1, 2, 3}, indent="")
    reasons = _reasons(card)
    if reasons:
        lines += ["", "skipped"]
        lines += align(reasons)
    if card.findings:
        lines += ["", card.format_findings(card.findings)]
    counts = card.counts()
    n_findings = len(card.findings)
    sums = f"{counts[PASSED]} passed, {counts[FAILED]} failed, {counts[SKIPPED]} skipped"
    lines += ["", f"{sums}; {n_findings or 'nothing'} found"]
    return "\n".join(lines)


def format_junit(card: Scorecard) -> str:
    """Return JUnit XML with a test for each rule on each subject, in one suite."""
    counts = card.counts()
    suites = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(
        suites,
        "testsuite",
        name=card.distribution,
        tests=str(len(card.results)),
        failures=str(counts[FAILED]),
        errors="0",
        skipped=str(counts[SKIPPED]),
    )
    for result in card.results:
        seconds = f"{result.seconds:.4f}"
        test = ElementTree.SubElement(
            suite, "testcase", classname=result.subject, name=result.rule, time=seconds
        )
        if result.state == SKIPPED:
            ElementTree.SubElement(test, "skipped", message=result.reason)
        elif result.state == FAILED:
            message = result.findings[0].message
            failure = ElementTree.SubElement(test, "failure", message=_printable(message))
            failure.text = _printable(card.format_findings(result.findings))
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _printable(text: str) -> str:
    """Return a string without the characters that XML does not allow."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


def _rows(card: Scorecard) -> list[list[str]]:
    rows = []
    for name in card.subjects():
        results = [result for result in card.results if result.subject == name]
        counts = [sum(r.state == state for r in results) for state in (PASSED, FAILED, SKIPPED)]
        broken = ", ".join(r.rule for r in results if r.state == FAILED)
        verdict = broken or ("good" if counts[0] else "not checked")
        rows.append([name, *map(str, counts), verdict])
    return rows


def _reasons(card: Scorecard) -> list[tuple[str, str]]:
    """Yield each reason once, with its rule and the number of subjects."""
    groups: dict[tuple[str, str], list[str]] = {}
    for result in card.results:
        if result.state == SKIPPED:
            groups.setdefault((result.rule, result.reason), []).append(result.subject)
    return [
        (rule, f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {reason}")
        for (rule, reason), names in groups.items()
    ]
