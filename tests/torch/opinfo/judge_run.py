"""Runs the judge on operators and prints a table.

``python tests/torch/opinfo/judge_run.py add 'linalg.*' --dtype float32 --phase values``
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import torch
from adapters import ADAPTERS
from judge import PHASES, draw, judge
from opinfo_entries import full_name

FLOATS = ("float32", "float64")
NARROW = ("float16", "bfloat16", "uint8", "int8", "int16", "int32", "int64", "bool")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("patterns", nargs="*", default=["*"])
    parser.add_argument("--dtype", action="append")
    parser.add_argument("--phase", action="append", choices=PHASES)
    parser.add_argument("--shard", default="0/1")
    parser.add_argument("--reasons", type=int, default=3)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    started = time.perf_counter()
    rows = list(run(given))
    total: dict[str, Counter[str]] = {}
    for row in rows:
        total.setdefault(row["phase"] + " " + row["dtype"], Counter()).update(row["counts"])
    for kind, counts in total.items():
        print(kind, dict(counts))
    print(f"{time.perf_counter() - started:.0f} s")
    if given.json:
        given.json.write_text(json.dumps(rows))
    return 0


def run(given: argparse.Namespace) -> Any:
    from torch.testing._internal.common_methods_invocations import op_db

    part, parts = map(int, given.shard.split("/"))
    chosen = [
        entry
        for entry in sorted(op_db, key=full_name)
        if entry.name in ADAPTERS
        and any(fnmatch(full_name(entry), p) or entry.name == p for p in given.patterns)
    ]
    for i, entry in enumerate(chosen):
        if i % parts != part:
            continue
        for phase in given.phase or PHASES:
            default = {"values": FLOATS + NARROW, "non-contiguous": ("float32",)}
            if phase == "references" and not has_reference(entry):
                continue
            for dtype in given.dtype or default.get(phase, ("float64",)):
                yield from one(entry, getattr(torch, dtype), phase, given.reasons)


def has_reference(entry: Any) -> bool:
    """Return whether OpInfo names a NumPy or SciPy reference function."""
    return callable(entry.ref) and getattr(entry.ref, "__name__", "") != "_NOTHING"


def one(entry: Any, dtype: torch.dtype, phase: str, most: int) -> Any:
    if dtype not in entry.supported_dtypes("cpu"):
        return
    if phase == "gradients" and not entry.supports_autograd:
        return
    started = time.perf_counter()
    counts: Counter[str] = Counter()
    reasons: Counter[tuple[str, ...]] = Counter()
    for task in draw(entry, dtype, phase):
        outcome = judge(task, phase)
        counts[outcome.kind] += 1
        if outcome.reasons and outcome.kind != "left out":
            reasons[(outcome.kind, *outcome.reasons)] += 1
    name = str(dtype)[6:]
    seconds = time.perf_counter() - started
    if reasons:
        print(
            f"{full_name(entry):40} {phase:8} {name:9} {dict(counts)} {seconds:.1f} s", flush=True
        )
        for reason, n in reasons.most_common(most):
            print("   ", n, *reason)
    yield {
        "name": full_name(entry),
        "phase": phase,
        "dtype": name,
        "counts": dict(counts),
        "seconds": seconds,
        "reasons": [[n, *r] for r, n in reasons.most_common(5)],
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
