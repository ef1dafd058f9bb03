"""Writes docs/differences.md: intended differences, and the number of passing samples by name.

``python tests/torch/opinfo/judge_page.py`` runs all samples in two processes; this takes minutes.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, Final

from adapters import ADAPTERS
from evaluation import render as render_differences
from judged_names import entries, is_counted, reason_of

PAGE: Final = Path(__file__).parents[3] / "docs" / "differences.md"
BEGIN: Final = "<!-- what follows is written by tests/torch/opinfo/judge_page.py -->\n"
MIDDLE: Final = "\n## Samples by name\n"
PARTS: Final = 4
GROUPS: Final = ("floats", "other dtypes", "not contiguous", "gradients", "NumPy")

Counts = dict[str, dict[str, Counter[str]]]


def group_of(row: dict[str, Any]) -> str:
    """Return the page column in which a judge row is counted."""
    special = {"non-contiguous": "not contiguous", "references": "NumPy"}
    if row["phase"] != "values":
        return special.get(row["phase"], row["phase"])
    return "floats" if row["dtype"] in ("float32", "float64") else "other dtypes"


def run_all(processes: int = 2) -> list[dict[str, Any]]:
    """Return the rows of the judge for all names, computed in several processes."""
    script = Path(__file__).parent / "judge_run.py"
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{part}.json" for part in range(PARTS)]
        for first in range(0, PARTS, processes):
            running = [
                subprocess.Popen(
                    [sys.executable, script, "--shard", f"{part}/{PARTS}", "--json", files[part]],
                    stdout=subprocess.DEVNULL,
                )
                for part in range(first, min(first + processes, PARTS))
            ]
            for process in running:
                if process.wait():
                    raise RuntimeError(f"{script.name} ended with {process.returncode}")
        return [row for file in files for row in json.loads(file.read_text())]


def counted(rows: list[dict[str, Any]]) -> Counts:
    counts: Counts = defaultdict(lambda: defaultdict(Counter))
    for row in rows:
        kinds = {kind: n for kind, n in row["counts"].items() if kind != "left out"}
        counts[row["name"].partition(".variant")[0]][group_of(row)].update(kinds)
    return counts


def totals(counts: Counts) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for groups in counts.values():
        for group, kinds in groups.items():
            found[group].update(kinds)
    return found


def render(rows: list[dict[str, Any]]) -> str:
    """Return the page."""
    words, _, _ = PAGE.read_text().partition(BEGIN)
    counts = counted(rows)
    samples = f"{_summary(counts)}\n{_table(counts, rows)}"
    return f"{words}{BEGIN}\n{render_differences()}{MIDDLE}\n{samples}"


def _summary(counts: Counts) -> str:
    names = sorted({entry.name for entry in entries()})
    n_counted = sum(map(is_counted, names))
    words = (
        f"Of {len(names)} names in OpInfo {n_counted} are counted, {len(ADAPTERS)} are mapped.\n"
    )
    head = "| samples | passed | differ on purpose | refused | failed |\n|---|---|---|---|---|\n"
    lines = [f"{words}\n{head}"]
    found = totals(counts)
    for group in GROUPS:
        kinds = found[group]
        shares = [kinds[kind] for kind in ("passed", "differs", "refused", "failed")]
        whole = max(sum(shares), 1)
        cells = [f"{n:,} ({100 * n / whole:.2f} %)" for n in shares]
        lines.append(f"| {group} | {' | '.join(cells)} |\n")
    return "".join(lines)


def _table(counts: Counts, rows: list[dict[str, Any]]) -> str:
    head = (
        f"| name | {' | '.join(GROUPS)} | what does not pass |\n|---|{'---|' * len(GROUPS)}---|\n"
    )
    reasons: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        for n, kind, reason in row["reasons"]:
            reasons[row["name"]][f"{kind}: {_short(reason)}"] += n
    lines = []
    for name in sorted(counts):
        groups = counts[name]
        cells = [_cell(groups[group]) for group in GROUPS]
        why = reasons[name].most_common(1)[0][0] if reasons[name] else ""
        lines.append(f"| `{name}` | {' | '.join(cells)} | {why} |\n")
    unmapped = [n for n in sorted({entry.name for entry in entries()}) if n not in ADAPTERS]
    left = ["\n### Without an adapter\n\n| name | reason | counted |\n|---|---|---|\n"]
    left += [f"| `{n}` | {reason_of(n)} | {'yes' if is_counted(n) else 'no'} |\n" for n in unmapped]
    return head + "".join(lines) + "".join(left)


def _cell(kinds: Counter[str]) -> str:
    whole = sum(kinds.values())
    if not whole:
        return ""
    return f"{whole}" if kinds["passed"] == whole else f"{kinds['passed']} of {whole}"


def _short(reason: str) -> str:
    reason = re.sub(r"Greatest.*|\(up to.*|Mismatched.*|Absolute.*", "", reason)
    return re.sub(r"\s+", " ", reason).replace("|", "\\|").strip()[:100]


if __name__ == "__main__":
    PAGE.write_text(render(run_all()))
