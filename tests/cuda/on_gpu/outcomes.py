"""Reads section outcomes from the result files of processes, and shows and stores the outcomes."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Report:
    """The outcome of a section.

    Attributes
    ----------
    name, title : str
        Name and title of the section.
    counts : Counter
        Tests that passed, failed, were skipped, crashed, or were not reached.
    seconds : float
        Duration of the section.
    problems : list of (str, str)
        Failed or crashed tests, with their messages.
    skipped : Counter
        Number of skipped tests by reason.
    figures : dict
        Figures that tests measured.
    notes : list of str
        Errors outside tests.
    """

    name: str
    title: str
    counts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    problems: list[tuple[str, str]] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    figures: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """True if all tests ran and none failed."""
        bad = sum(self.counts[kind] for kind in ("failed", "crashed", "not reached"))
        return not bad and not self.notes


def read_lines(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a shard file; a killed process may leave an incomplete last line."""
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            continue


def read_progress(file: Path) -> tuple[set[str], set[str]]:
    """Return the started tests of a shard, and all tests of the shard."""
    begun: set[str] = set()
    collected: set[str] = set()
    for line in read_lines(file):
        collected |= set(line.get("collected", ()))
        begun |= {line["start"]} if "start" in line else set()
    return begun, collected


def collect(file: Path, report: Report) -> None:
    """Add the outcomes of a shard to a report."""
    begun, collected = read_progress(file)
    outcomes: dict[str, str] = {}
    for line in read_lines(file):
        if "test" not in line:
            continue
        test, outcome = line["test"], line["outcome"]
        if outcomes.get(test) != "failed":
            outcomes[test] = outcome
        report.figures |= line["figures"]
        if outcome == "failed":
            report.problems.append((test, line["text"]))
        elif outcome == "skipped":
            report.skipped[line["text"]] += 1
    report.counts.update(outcomes.values())
    crashed = sorted(begun - outcomes.keys())
    report.problems += [(test, "the process ended, or was ended, in this test") for test in crashed]
    report.counts["crashed"] += len(crashed)
    report.counts["not reached"] += len(collected - begun)


KINDS = ("passed", "failed", "crashed", "not reached", "skipped")


def show(report: Report) -> str:
    """Return the summary of a finished section as text."""
    counted = ", ".join(f"{report.counts[kind]} {kind}" for kind in KINDS if report.counts[kind])
    lines = [f"== {report.name}: {report.title}: {counted or 'nothing'} in {report.seconds:.0f} s"]
    lines += [f"  NOTE {note}" for note in report.notes]
    lines += [f"  skipped {n}: {reason}" for reason, n in report.skipped.most_common(4)]
    lines += [f"  {name}: {value}" for name, value in report.figures.items()]
    for test, text in report.problems[:12]:
        said = [line for line in text.splitlines() if line.startswith("E ")] or text.splitlines()
        lines.append(f"  FAILED {test}\n      {' '.join(said[:3])[:400]}")
    if len(report.problems) > 12:
        lines.append(f"  and {len(report.problems) - 12} more: see results.txt")
    return "\n".join(lines)


def show_table(reports: list[Report]) -> str:
    """Return a table of all sections."""
    lines = [f"{'section':11}" + "".join(f"{kind:>13}" for kind in KINDS) + f"{'seconds':>10}"]
    for report in reports:
        counted = "".join(f"{report.counts[kind]:13}" for kind in KINDS)
        verdict = "good" if report.is_good else "BAD"
        lines.append(f"{report.name:11}{counted}{report.seconds:10.0f}  {verdict}")
    return "\n".join(lines)


def summarize(reports: list[Report], machine: dict[str, Any], digest: str) -> dict[str, Any]:
    """Return the machine-readable summary."""
    sections = [
        {
            "name": report.name,
            "counts": dict(report.counts),
            "seconds": round(report.seconds, 1),
            "notes": report.notes,
            "figures": report.figures,
            "problems": [
                {"test": test, "text": "\n".join(text.splitlines()[-12:])}
                for test, text in report.problems
            ],
        }
        for report in reports
    ]
    date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {"date": date, "sources": digest, "machine": machine, "sections": sections}
