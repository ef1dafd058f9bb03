"""Writes which ONNX operators are supported, and which node cases are refused and why.

``onnx_page.py`` writes the end of the page; test_pages.py checks that it is current.
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path
from typing import Any, Final

import onnx

import opwright as ow
from opwright_onnx.translate.table import all_rows

sys.path.insert(0, str(Path(__file__).parent))
from node_cases import REFUSED, load_cases  # found by the line above

EXPORTED: Final = {
    "False": (
        109,
        {
            "halonet_h1": "not exported, `unfold` of an unknown size",
            "whisper": "not exported, `aten::diff`",
        },
    ),
    "True": (
        77,
        {
            "beit_base_patch16_224, t5, xlnet": "not exported, the exporter cannot decompose them",
            "31 models": "not tried",
        },
    ),
}
"""By `dynamo` of the exporter: the number of models of `model_families` that equal PyTorch, as
`exported_models.py` found with torch 2.13, and the other models, with the reason."""

PAGE: Final = Path(__file__).parents[2] / "docs" / "run_onnx_models.md"
BEGIN: Final = "<!-- what follows is written by tests/onnx/onnx_page.py -->\n"

EXPORTED_MODELS: Final = """\
Models from torchvision, timm and transformers with random weights, written by both exporters of
torch 2.13. "Equal" means equal to PyTorch's results, at the batch size of the export and at a
different batch size."""


def render() -> str:
    """Return the generated end of the page."""
    rows, written, bodies, missing = _rows(), [], [], []
    for schema in sorted(_newest(), key=lambda s: (s.domain, s.name)):
        key = f"{schema.domain}::{schema.name}" if schema.domain else schema.name
        if key in rows:
            written.append(_describe(key, rows[key]))
        elif schema.has_function or schema.has_context_dependent_function:
            bodies.append(f"`{key}`")
        else:
            missing.append(f"`{key}`")
    others = [f"`{key}`" for key in sorted(rows) if key.startswith("com.microsoft::")]
    return "\n".join(
        [
            "",
            f"## Operators of ONNX {onnx.__version__}",
            "",
            "If a single opwright operator has the same meaning, its name follows in parentheses;",
            "all other operators become compositions.",
            "",
            _wrap(written),
            "",
            "In the domain `com.microsoft`:",
            "",
            _wrap(others),
            "",
            "Expanded into the function bodies of their schemas:",
            "",
            _wrap(bodies),
            "",
            "Refused by name:",
            "",
            _wrap(missing),
            "",
            "## onnx test cases that do not pass",
            "",
            *_cases(),
            "## PyTorch models",
            "",
            textwrap.fill(EXPORTED_MODELS, 120),
            "",
            *_exported(),
        ]
    )


def _rows() -> dict[str, Any]:
    context = ow.current_context()
    return all_rows(context, context.epoch.now)


def _newest() -> list[Any]:
    found = {(s.domain, s.name): s for s in onnx.defs.get_all_schemas()}
    return [s for s in found.values() if not s.deprecated]


def _describe(key: str, row: Any) -> str:
    return f"`{key}`" if callable(row) else f"`{key}` (`{row[1]}`)"


def _wrap(items: list[str]) -> str:
    return textwrap.fill(", ".join(items) + ".", 118, break_long_words=False)


def _cases() -> list[str]:
    names = list(load_cases())
    refused = {why: [n for n in names if re.search(pattern, n)] for pattern, why in REFUSED.items()}
    for pattern, why in REFUSED.items():
        refused[why] = sorted({*refused[why], *(n for n in names if re.search(pattern, n))})
    count = len(names) - sum(map(len, refused.values()))
    lines = [
        f"Of {len(names)} node cases {count} pass.",
        "",
        "| cases | why | names |",
        "|---|---|---|",
    ]
    for why, found in refused.items():
        lines.append(f"| {len(found)} | {why} | {_shorten(found)} |")
    return [*lines, ""]


def _exported() -> list[str]:
    lines = ["| `torch.onnx.export` | equal | others |", "|---|---|---|"]
    for dynamo, (count, others) in EXPORTED.items():
        reasons = "; ".join(f"{name}: {why}" for name, why in others.items())
        lines.append(f"| `dynamo={dynamo}` | {count} | {reasons} |")
    return [*lines, ""]


def _shorten(names: list[str]) -> str:
    few = ", ".join(f"`{name.removeprefix('test_')}`" for name in names[:3])
    return few + (", ..." if len(names) > 3 else "")


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8").partition(BEGIN)[0]
    PAGE.write_text(text + BEGIN + render(), encoding="utf-8")
