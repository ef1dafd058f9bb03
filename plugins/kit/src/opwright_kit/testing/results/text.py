"""Formats a scorecard for a terminal."""

from __future__ import annotations

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


def _rows(card: Scorecard) -> list[list[str]]:
    rows = []
    for name in card.subjects():
        results = [result for result in card.results if result.subject == name]
        counts = [sum(r.state == state for r in results) for state in (PASSED, FAILED, SKIPPED)]
        broken = ", ".join(r.rule for r in results if r.state == FAILED)
        rows.append([name, *map(str, counts), broken or "good"])
    return rows


def _reasons(card: Scorecard) -> list[tuple[str, str]]:
    """Each reason once, with its rule and the number of subjects."""
    groups: dict[tuple[str, str], list[str]] = {}
    for result in card.results:
        if result.state == SKIPPED:
            groups.setdefault((result.rule, result.reason), []).append(result.subject)
    return [
        (rule, f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {reason}")
        for (rule, reason), names in groups.items()
    ]
