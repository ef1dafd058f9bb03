"""``opwright.ops`` agrees with PyTorch's samples, except as listed in docs/differences.md."""

from __future__ import annotations

import ast
import itertools
import re
from collections import Counter
from pathlib import Path
from typing import Any

import judge_page
import pytest
import torch
from adapters import ADAPTERS
from differences import DIFFERENCES
from evaluation import render as render_differences
from judge import PHASES, draw, judge
from judge_run import has_reference
from judged_names import LACKING, LEFT_OUT, entries, is_counted, reason_of
from on_purpose import AS_WHOLE, INSTEAD, MARKS, REFERENCES, WITHOUT_GRADIENT
from opinfo_entries import full_name

from every_case import EVERY, is_one_in

ROOM = Path(__file__).parent
MOST = 12
"""The number of samples per operator and phase in CI, where only some operators run."""
IN_CI = 16

ALLOWED = {
    "arange",
    "as_strided",
    "as_tensor",
    "broadcast_shapes",
    "finfo",
    "iinfo",
    "promote_types",
    "tensor",
    "triu_indices",
}
"""PyTorch functions of shapes, dtypes and constants, which adapters may call."""


def test_every_name_has_an_adapter_or_a_reason_for_its_absence() -> None:
    names = {entry.name for entry in entries()}
    assert [name for name in sorted(names) if name not in ADAPTERS and not reason_of(name)] == []
    assert sorted(set(ADAPTERS) - names) == []
    assert sorted(set(ADAPTERS) & {*LEFT_OUT, *LACKING}) == []


def test_430_names_are_mapped() -> None:
    names = {entry.name for entry in entries()}
    assert len(names & set(ADAPTERS)) >= 430
    assert sum(map(is_counted, names)) >= 498


@pytest.mark.parametrize("file", sorted((ROOM / "adapters").glob("*.py")), ids=lambda f: f.stem)
def test_adapters_compute_only_with_opwright(file: Path) -> None:
    tree = ast.parse(file.read_text())
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    assert imported <= {"itertools", "math", "torch", "opwright"}
    called = {
        node.func.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and ast.unparse(node.func.value) == "torch"
    }
    assert called <= ALLOWED


def test_the_page_lists_the_differences() -> None:
    written = judge_page.PAGE.read_text().partition(judge_page.BEGIN)[2]
    table = written.partition(judge_page.MIDDLE)[0]
    assert table == f"\n{render_differences()}", "python tests/torch/opinfo/judge_page.py writes it"


def test_an_intended_difference_has_a_row() -> None:
    named = {*WITHOUT_GRADIENT.values(), *REFERENCES.values(), *AS_WHOLE.values()}
    named |= {row for _, row in (*MARKS.values(), *INSTEAD.values())}
    assert named <= {row.topic for row in DIFFERENCES}


def sampled() -> list[Any]:
    return [
        pytest.param(entry, id=full_name(entry))
        for entry in entries()
        if entry.name in ADAPTERS and (is_one_in(IN_CI, full_name(entry)) and not EVERY)
    ]


@pytest.mark.skipif(EVERY, reason="all samples run at once")
@pytest.mark.parametrize("entry", sampled())
@pytest.mark.parametrize("phase", PHASES)
def test_samples_agree_with_pytorch(entry: Any, phase: str) -> None:
    dtype = torch.float64 if phase in ("gradients", "references") else torch.float32
    if dtype not in entry.supported_dtypes("cpu"):
        pytest.skip("PyTorch lacks it in this dtype")
    if phase == "gradients" and not entry.supports_autograd:
        pytest.skip("it has no gradient")
    if phase == "references" and not has_reference(entry):
        pytest.skip("OpInfo names no function of NumPy")
    outcomes = [judge(task, phase) for task in itertools.islice(draw(entry, dtype, phase), MOST)]
    assert [outcome.reasons for outcome in outcomes if outcome.kind == "failed"] == []


@pytest.mark.skipif(not EVERY, reason="runs all samples: OPWRIGHT_EVERY_CASE=1")
def test_the_number_of_passing_samples_matches_the_page() -> None:
    counts = judge_page.counted(judge_page.run_all())
    page = judge_page.PAGE.read_text()
    fewer = {}
    for name, groups in counts.items():
        line = re.search(rf"^\| `{re.escape(name)}` \|(.*)$", page, re.MULTILINE)
        assert line, f"docs/differences.md lacks {name}"
        cells = [cell.strip() for cell in line[1].split("|")[: len(judge_page.GROUPS)]]
        for group, cell in zip(judge_page.GROUPS, cells, strict=True):
            if cell and groups[group]["passed"] < int(cell.split(" ")[0]):
                fewer[name, group] = (groups[group]["passed"], cell)
    assert fewer == {}
    _check_bars(judge_page.totals(counts))


def _check_bars(totals: dict[str, Counter[str]]) -> None:
    shares = {
        group: {kind: n / sum(kinds.values()) for kind, n in kinds.items()}
        for group, kinds in totals.items()
    }
    assert shares["floats"]["passed"] >= 0.98
    assert shares["floats"]["refused"] <= 0.01
    assert shares["other dtypes"]["passed"] >= 0.95
