"""Runs third-party models in plans, and prints the errors of plans and PyTorch against float64.

``python tests/torch/models/model_run.py 'torchvision.*' --optimizer sgd``
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from fnmatch import fnmatch
from typing import Any, Final, NamedTuple

import torch
from model_zoo import Entry, entries
from training import MOST, Course, Errors, errors, jumps

from opwright_torch.backend import opwright

BATCHES: Final = (4, 4, 3)
"""The batch sizes of the calls."""

FURTHER: Final = 4
"""The number of further draws of weights and inputs if the first draw is too inexact."""

NUDGES: Final = 3
"""The number of PyTorch runs after `nudge` for each of these draws."""


class Outcome(NamedTuple):
    """The outcome of a model."""

    errors: Errors
    declined: Counter[str]  # operators computed by PyTorch, with reasons


def try_model(
    entry: Entry, optimizer: str | None, is_training: bool, seed: int = 3, n_nudged: int = 0
) -> Outcome:
    """Return the outcome of a model in plans; exceptions of `torch.compile` propagate."""
    torch._dynamo.reset()
    torch.manual_seed(seed)
    model = entry.build().train(is_training)
    course = Course([entry.inputs(batch) for batch in BATCHES], optimizer)
    regions: list[Any] = []

    def compile(given: torch.nn.Module) -> Any:
        return torch.compile(given, backend=watch(regions), fullgraph=True)

    found = errors(model, course, compile, n_nudged)
    declined = [
        d for region in regions for p in region.plans[:1] for d in p.draft.translated.declined
    ]
    return Outcome(found, Counter(f"{d.node.target}: {d.reason}" for d in declined))


def find_excess(
    entry: Entry, optimizer: str | None, is_training: bool, first: Errors, most: float = MOST
) -> dict[str, tuple[float, float]]:
    """Return the tensors whose errors in the first draw are too large and not due to kinks."""
    excess = first.excess(most)
    if not (excess and is_training):
        return excess
    draws = [
        try_model(entry, optimizer, is_training, seed, NUDGES).errors
        for seed in range(3, 4 + FURTHER)
    ]
    return {} if jumps(draws, most) else excess


def watch(regions: list[Any]) -> Callable[..., Any]:
    """Return the backend, which records its plans."""

    def backend(module: torch.fx.GraphModule, inputs: Any, **options: Any) -> Any:
        regions.append(opwright(module, inputs, **options))
        return regions[-1]

    return backend


def main(arguments: list[str]) -> int:
    """Print a line for each model; return the number of failures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("patterns", nargs="*", default=["*"])
    parser.add_argument("--optimizer", choices=["sgd", "adamw"])
    parser.add_argument("--train", action="store_true", help="in the mode of training")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    failed = 0
    for name, entry in entries().items():
        if any(fnmatch(name, pattern) for pattern in given.patterns):
            failed += not _show(name, entry, given)
    return failed


def _show(name: str, entry: Entry, given: argparse.Namespace) -> bool:
    started = time.perf_counter()
    try:
        outcome = try_model(entry, given.optimizer, given.train)
    except Exception as error:  # noqa: BLE001 - the error is printed
        words = " ".join(str(error).split())[:400]
        print(f"{name:45} FAILS {type(error).__name__}: {words}", flush=True)
        return False
    excess = find_excess(entry, given.optimizer, given.train, outcome.errors)
    jumped = " (jumps)" if outcome.errors.excess() and not excess else ""
    word, taken = "WRONG" if excess else "right", time.perf_counter() - started
    print(
        f"{name:45} {word}{jumped} calls {sum(outcome.declined.values())} {taken:.0f} s", flush=True
    )
    for label, (ours, theirs) in list(excess.items())[:5]:
        print(f"    {label}: {ours:.2g} instead of {theirs:.2g}")
    for reason, n in outcome.declined.most_common(5):
        print(f"    PyTorch {n}: {reason}")
    return not excess


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
