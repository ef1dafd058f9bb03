"""Renders docs/cuda_coverage.md, a table of CUDA kernel dtypes by operator.

``coverage_page.py`` writes it; test_coverage.py checks that it is current.
"""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import fill

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support"), str(HERE.parent / "std" / "operators")]

from samples import samples, standard_kernels, wanted_dtypes  # noqa: E402
from table import standard_types  # noqa: E402

import opwright as ow  # noqa: E402
from opwright.op import DTYPES, INT_DTYPES, NARROW_DTYPES  # noqa: E402
from opwright_cuda.not_there import NOT_THERE  # noqa: E402

PAGE = HERE.parent.parent / "docs" / "cuda_coverage.md"

INTRODUCTION = """# CUDA kernels by operator and dtype

This page lists every operator of opwright-std, including gradients, in every dtype of its NumPy
kernel except the narrow dtypes (float8, int4, uint4), and in bfloat16 if the operator accepts it.
`tests/cuda/test_coverage.py` runs each kernel of this table in each of its dtypes, on the CPU if
there is no GPU, and compares the results with NumPy. The page is written by
`tests/cuda/coverage_page.py`.

"native" kernels are CUDA sources of opwright-cuda. "small" is a kernel for small matrix products,
which refuses larger products. "cublaslt" and "cudnn" are NVIDIA's libraries; cuDNN is used if it is
installed. "cudnn_tf32" is cuDNN with the option `cuda.allow_tf32`. "tensor_cores" is attention
without stored scores, which runs only if it is pinned.

| operator | dtypes | libraries |
|---|---|---|
"""

GROUPS = (
    ("every dtype", tuple(d for d in DTYPES if d not in NARROW_DTYPES)),
    ("floats", ("float16", "bfloat16", "float32", "float64")),
    ("integers", INT_DTYPES),
)


def missing() -> dict[str, list[str]]:
    """Return the dtypes without a CUDA kernel, by operator type."""
    there: dict[str, set[str]] = {}
    for sample in samples():
        there.setdefault(sample.op_type, set()).add(sample.dtype)
    lacking = {
        op_type: [d for d in wanted_dtypes(op_type, known) if d not in there.get(op_type, ())]
        for op_type, known in standard_kernels().items()
    }
    return {op_type: dtypes for op_type, dtypes in lacking.items() if dtypes}


def words(dtypes: set[str]) -> str:
    """Return a short description of a set of dtypes."""
    listed = []
    for name, members in GROUPS:
        if dtypes >= set(members):
            listed.append(name)
            dtypes = dtypes - set(members)
    return ", ".join([*listed, *(d for d in DTYPES if d in dtypes)])


def wrap_paragraphs(text: str) -> str:
    """Wrap the paragraphs at the width of pages; headings and tables are unchanged."""
    parts = text.split("\n\n")
    words = [p if p.startswith(("#", "|")) else fill(p, 120, break_on_hyphens=False) for p in parts]
    return "\n\n".join(words)


def render() -> str:
    """Return the text of the page."""
    rows: dict[str, tuple[set[str], set[str]]] = {}
    for op_type, dtype, library, _ in samples():
        dtypes, libraries = rows.setdefault(op_type, (set(), set()))
        dtypes.add(dtype)
        libraries.add(library)
    lines = [
        f"| `{op_type}` | {words(dtypes)} | {', '.join(sorted(libraries))} |"
        for op_type, (dtypes, libraries) in sorted(rows.items())
    ]
    text = (
        wrap_paragraphs(INTRODUCTION)
        + "\n".join(lines)
        + "\n\n## Operators without a CUDA kernel\n\n"
    )
    ops = ow.current_context().ops
    reasons = dict(NOT_THERE)
    for op_type in standard_types():
        if op_type not in rows and ops.get(op_type).control is not None:
            reasons[op_type] = "the operators of its blocks have CUDA kernels"
        elif op_type not in rows and ops.get(op_type).body is not None:
            reasons.setdefault(op_type, "composed of other operators, which have CUDA kernels")
    return text + "".join(f"- `{name}`: {reason}\n" for name, reason in sorted(reasons.items()))


if __name__ == "__main__":
    PAGE.write_text(render())
