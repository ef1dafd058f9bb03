"""Collects the cases of all files in `cases`, and parametrizes tests with them."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from case import Case
from one_operator import Target, graded_slots, targets

import opwright as ow
from every_case import EVERY, is_one_in
from opwright.errors import KernelNotFoundError

Point: TypeAlias = tuple[Case, str, Target]

FOLDER = Path(__file__).parent / "cases"

SHARE = 24
"""One in `SHARE` cases of each dtype and library runs, unless all run."""

DEVICE_SHARE = 4
"""As `SHARE`, for devices other than the CPU, where every kernel instance must be compiled."""

REFUSALS = {
    ("matmul", "cuda-small"): r"the batch broadcasts in more than one dimension",
    ("scaled_dot_product_attention", "cpu-native"): r"does not support a 16-bit float mask",
    ("scaled_dot_product_attention", "cuda-tensor_cores"): (
        r"[qv] must have a last axis of a multiple of 8, .*|there are no scores"
    ),
}
"""Why a library may refuse cases of a supported dtype, as patterns by operator and target."""


@cache
def load_cases() -> tuple[Case, ...]:
    """Return every case, sorted by file."""
    found: list[Case] = []
    for file in sorted(FOLDER.glob("*.py")):
        found += importlib.import_module(f"cases.{file.stem}").CASES
    return tuple(found)


@cache
def first_cases() -> tuple[Case, ...]:
    """Return, for each operator, its largest case by elements, preferring cases with a gradient.

    Cases for the limits of a dtype are excluded, since narrower dtypes lack these values.
    """
    best: dict[str, Case] = {}
    for case in load_cases():
        if not has_counts(case) or case.gradients is not None:
            continue
        if case.op not in best or _rank(case) > _rank(best[case.op]):
            best[case.op] = case
    return tuple(best.values())


def has_counts(case: Case) -> bool:
    """Return whether the number of outputs follows from the attributes or is fixed."""
    return not case.outputs or bool({"sections", "num", "max_norm"} & case.attrs.keys())


def _rank(case: Case) -> tuple[bool, int]:
    return not case.no_grad, _size(case)


def _size(case: Case) -> int:
    return sum(
        array.size for arrays in case.make_inputs(case.dtypes[-1]).values() for array in arrays
    )


def over_targets(
    cases: Callable[[], Iterable[tuple[Case, str]]],
    chosen: Callable[[Target], bool] = lambda target: True,
) -> Callable[[Callable[..., None]], Any]:
    """Run a test over cases in dtypes, on every device and library that has a kernel.

    Unless all cases are requested, a sample runs: each kernel once, each case once on the CPU, some
    cases on other devices, and some of the rest. One pytest test runs all points of an operator and
    a library, since most points take less time than the overhead of a test. A failure names its
    point.
    """
    grid = [
        (case, dtype, target)
        for case, dtype in cases()
        for target in filter(chosen, targets(case, dtype))
    ]
    groups: dict[tuple[str, Target], list[Point]] = {}
    for point in grid if EVERY else take_sample(grid):
        groups.setdefault((point[0].op, point[2]), []).append(point)
    parameters = [
        pytest.param(
            points,
            id=f"{op_type}-{target}",
            marks=[pytest.mark.cuda_kernels] if target.device == "cuda" else [],
        )
        for (op_type, target), points in groups.items()
    ]

    def decorate(test: Callable[..., None]) -> Any:
        def run(points: list[Point], **fixtures: Any) -> None:
            skips = [_run_point(test, point, fixtures) for point in points]
            if None not in skips:
                pytest.skip(", ".join(sorted({skip for skip in skips if skip})))

        run.__name__, run.__doc__ = test.__name__, test.__doc__
        own = Parameter("points", Parameter.POSITIONAL_OR_KEYWORD)
        others = list(signature(test).parameters.values())[3:]
        run.__signature__ = Signature([own, *others])  # type: ignore[attr-defined]
        return pytest.mark.parametrize("points", parameters)(run)

    return decorate


def _run_point(test: Callable[..., None], point: Point, fixtures: dict[str, Any]) -> str | None:
    """Run a test for one point; return the reason if the test was skipped."""
    case, dtype, target = point
    try:
        test(*point, **fixtures)
    except pytest.skip.Exception as skip:
        return str(skip)
    except Exception as error:
        pattern = REFUSALS.get((case.op, str(target)), "$^")
        refusal = re.search(f" refused: ({pattern})$", str(error), re.MULTILINE)
        if isinstance(error, KernelNotFoundError) and refusal:
            return refusal[1]
        error.add_note(f"for {case} in {dtype} on {target}")
        raise
    return None


def take_sample(grid: Iterable[Point]) -> list[Point]:
    """Return the points of a grid that are always tested; the choice is deterministic."""
    chosen: list[Point] = []
    seen: set[tuple[str, ...]] = set()
    for case, dtype, target in grid:
        keys: set[tuple[str, ...]] = {(case.op, dtype, str(target))}
        if target.device == "cpu" or is_one_in(DEVICE_SHARE, case):
            keys.add((str(case), target.device))
        if not keys <= seen or is_one_in(SHARE, f"{case} {dtype} {target}"):
            chosen.append((case, dtype, target))
        seen |= keys
    return chosen


def sample_cases(cases: Iterable[Case]) -> list[Case]:
    """Return all cases if requested; otherwise the first case of each operator, and a sample."""
    chosen: list[Case] = []
    seen: set[str] = set()
    for case in cases:
        if EVERY or case.op not in seen or is_one_in(SHARE, case):
            chosen.append(case)
        seen.add(case.op)
    return chosen


def by_operator(cases: Iterable[Case]) -> dict[str, list[Case]]:
    """Group cases by operator, for tests that take less time than the overhead of pytest."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault(case.op, []).append(case)
    return groups


def over_cases(cases: Iterable[Case]) -> Any:
    """Parametrize a test over cases."""
    return pytest.mark.parametrize("case", list(cases), ids=str)


def every_dtype() -> Iterator[tuple[Case, str]]:
    """Yield each case in each of its dtypes."""
    for case in load_cases():
        for dtype in case.dtypes:
            yield case, dtype


@cache
def graded() -> tuple[tuple[Case, str], ...]:
    """Return each case whose gradient is compared, in each of its float dtypes."""
    return tuple(
        (case, dtype)
        for case in load_cases()
        if not case.no_grad and "float64" in case.dtypes
        for dtype in case.dtypes
        if np.dtype(dtype).kind == "f" and graded_slots(case, case.make_inputs(dtype))
    )


def standard_types(plan_only: bool = False) -> list[str]:
    """Return the opwright-std operator types, hidden types included, or only pass-only types."""
    ops = ow.current_context().ops
    return [
        op_type
        for op_type in ops.types(all=True)
        if ops.package_of(op_type).distribution == "opwright-std"
        and ops.get(op_type).plan_only == plan_only
    ]
