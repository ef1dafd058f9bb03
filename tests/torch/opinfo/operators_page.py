"""Writes docs/pytorch_operators.md, which lists the PyTorch operators that run in plans.

``operators_page.py`` writes the page; test_operators_page.py checks that it is current.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from textwrap import fill
from typing import Any, Final

import torch
from opinfo_entries import entries, full_name
from opinfo_harness import Outcome
from opinfo_run import outcomes_of

PAGE: Final = Path(__file__).parents[3] / "docs" / "pytorch_operators.md"
BEGIN: Final = "<!-- what follows is written by tests/torch/opinfo/operators_page.py -->\n"
MOST: Final = 2
"""The number of samples per operator."""


def try_all() -> dict[str, list[Outcome]]:
    """Return the sample outcomes of each operator, with gradients if PyTorch supports them."""
    return {full_name(entry): _try(entry) for entry in entries()}


def _try(entry: Any) -> list[Outcome]:
    outcomes = outcomes_of(entry, torch.float64, MOST, True)
    for dtype in (torch.float32, torch.int64, torch.bool):
        outcomes = outcomes or outcomes_of(entry, dtype, MOST, False)
    return [outcome for outcome in outcomes if outcome.kind != "left out"]


def render(tried: dict[str, list[Outcome]]) -> str:
    """Return the page with the lists of tested operators."""
    kinds = {name: {outcome.kind for outcome in found} for name, found in tried.items() if found}
    whole = [name for name, found in kinds.items() if found == {"ours"}]
    partly = [name for name, found in kinds.items() if "ours" in found and found != {"ours"}]
    called = [name for name, found in kinds.items() if "ours" not in found and "called" in found]
    refused = [name for name, found in kinds.items() if found == {"refused"}]
    words, _, _ = PAGE.read_text().partition(BEGIN)
    return (
        f"{words}{BEGIN}\n"
        f"Of {len(kinds)} operators {len(whole)} run in plans with all their samples, "
        f"{len(partly)} with some, {len(called)} through a call to PyTorch; {len(refused)} have no "
        "plan.\n\n"
        f"## In the plan\n\n{fill(', '.join(f'`{name}`' for name in whole), 118)}\n\n"
        f"## With some arguments\n\n{_table(partly, tried)}\n"
        f"## Through a call to PyTorch\n\n{_table(called, tried)}\n"
        f"## Without a plan\n\n{_table(refused, tried)}"
    )


def _table(names: list[str], tried: dict[str, list[Outcome]]) -> str:
    rows = [f"| `{name}` | {_reason(tried[name])} |\n" for name in names]
    return "".join(["| operator | reason |\n|---|---|\n", *rows]) if rows else "None.\n"


def _reason(outcomes: list[Outcome]) -> str:
    """Return the most frequent reason, without parts that differ between machines."""
    counts = Counter(reason for outcome in outcomes for reason in outcome.reasons[:1])
    reason = counts.most_common(1)[0][0] if counts else ""
    return re.sub(r"\s+", " ", reason).replace("|", "\\|").partition("; its decomposition")[0][:160]


if __name__ == "__main__":
    PAGE.write_text(render(try_all()))
