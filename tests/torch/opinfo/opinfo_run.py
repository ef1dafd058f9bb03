"""Compares plans with PyTorch on PyTorch's own samples, and prints a table.

``python tests/torch/opinfo/opinfo_run.py add 'linalg.*' --dtype float32 --gradient``
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from typing import Any

import torch
from opinfo_entries import entries, full_name
from opinfo_harness import Outcome, draw, try_sample

KINDS = ("ours", "called", "refused", "wrong", "left out")


def main(arguments: list[str]) -> int:
    """Print a line for each operator and the first reasons; return the number of wrong samples."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("patterns", nargs="*", default=["*"])
    parser.add_argument("--dtype", action="append", help="float32 by default")
    parser.add_argument("--gradient", action="store_true", help="in float64 by default")
    parser.add_argument("--most", type=int, default=12, help="samples of each operator; 0: all")
    parser.add_argument("--reasons", type=int, default=3, help="how many of each operator")
    parser.add_argument("--quiet", action="store_true", help="only what is refused or wrong")
    given = parser.parse_args(arguments)
    names = given.dtype or ["float64" if given.gradient else "float32"]
    torch.set_num_threads(1)
    total: Counter[str] = Counter()
    started = time.perf_counter()
    for entry in entries(tuple(given.patterns)):
        for name in names:
            total.update(_show(entry, getattr(torch, name), given))
    print(dict(total), f"{time.perf_counter() - started:.0f} s")
    return total["wrong"]


def _show(entry: Any, dtype: torch.dtype, given: argparse.Namespace) -> Counter[str]:
    outcomes = outcomes_of(entry, dtype, given.most or None, given.gradient)
    counts = Counter(outcome.kind for outcome in outcomes)
    if outcomes and not (given.quiet and set(counts) <= {"ours", "left out"}):
        shown = " ".join(f"{kind} {counts[kind]}" for kind in KINDS if counts[kind])
        print(f"{full_name(entry):45} {str(dtype)[6:]:9} {shown}", flush=True)
        reasons = Counter((o.kind, reason) for o in outcomes for reason in set(o.reasons))
        for (kind, reason), n in reasons.most_common(given.reasons):
            print(f"    {kind} {n}: {reason}")
    return counts


def outcomes_of(entry: Any, dtype: torch.dtype, most: int | None, gradient: bool) -> list[Outcome]:
    """Return the outcomes of the first samples of an operator, if it supports the dtype."""
    if dtype not in entry.supported_dtypes("cpu"):
        return []
    if gradient and not entry.supports_autograd:
        return []
    torch.manual_seed(11)
    return [try_sample(s, gradient) for s in draw(entry, dtype, most, gradient)]


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
