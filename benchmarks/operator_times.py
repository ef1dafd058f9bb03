"""Measure single operators beside NumPy, on one thread by turns; write a file for the site.

``operator_times.py`` writes ``operator_times.json`` beside itself, from which ``make docs`` puts
the times on the operators' pages. ``operator_times.py add exp --output some.json`` measures those
alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import opwright as ow
from opwright.kernel import explain
from report import describe_machine

HERE = Path(__file__).parent
Array = npt.NDArray[np.float32]
Function = Callable[..., Any]

LENGTHS: Final = ((1_000,), (100_000,), (1_000_000,))
ROWS: Final = ((8, 100), (128, 1_000), (1_000, 1_000))
SQUARES: Final = ((32, 32), (256, 256), (512, 512))
TOLERANCE: Final = 1e-3
ONE_THREAD: Final = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "OPWRIGHT_NUM_THREADS")


def _softmax(x: Array) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _log_softmax(x: Array) -> Any:
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


ELEMENT_WISE: Final[dict[str, Function]] = {
    "abs": np.abs,
    "exp": np.exp,
    "log": np.log,
    "negative": np.negative,
    "reciprocal": np.reciprocal,
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "sqrt": np.sqrt,
    "square": np.square,
    "tanh": np.tanh,
}
BINARY: Final[dict[str, Function]] = {
    "add": np.add,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "subtract": np.subtract,
}
OVER_ROWS: Final[dict[str, Function]] = {"softmax": _softmax, "log_softmax": _log_softmax}
OVER_ALL: Final[dict[str, Function]] = {
    "sum": np.sum,
    "mean": np.mean,
    "max": np.max,
    "min": np.min,
}


def list_cases() -> dict[str, tuple[Function, int, Sequence[tuple[int, ...]]]]:
    """Return by operator: what NumPy's users write, how many arrays it takes, and their shapes."""
    cases: dict[str, tuple[Function, int, Sequence[tuple[int, ...]]]] = {}
    for table, n_inputs, shapes in (
        (ELEMENT_WISE, 1, LENGTHS),
        (BINARY, 2, LENGTHS),
        (OVER_ROWS, 1, ROWS),
        (OVER_ALL, 1, LENGTHS),
        ({"matmul": np.matmul}, 2, SQUARES),
    ):
        cases |= {name: (function, n_inputs, shapes) for name, function in table.items()}
    return dict(sorted(cases.items()))


def measure(functions: Sequence[Callable[[], Any]], rounds: int, seconds: float) -> list[float]:
    """Return the least time of a call of each, in seconds; each has its turn in every round."""
    best = [float("inf")] * len(functions)
    for _ in range(rounds):
        for index, function in enumerate(functions):
            end = time.perf_counter() + seconds
            n_calls = 1
            while time.perf_counter() < end:
                begin = time.perf_counter()
                for _ in range(n_calls):
                    function()
                spent = time.perf_counter() - begin
                best[index] = min(best[index], spent / n_calls)
                if spent < 1e-4:  # the clock itself takes a tenth of a microsecond
                    n_calls *= 2
    return best


def measure_operator(name: str, rounds: int, seconds: float) -> dict[str, Any]:
    """Return the times of one operator by shape, and the kernel that served.

    Raises
    ------
    ValueError
        Where NumPy computes something else.
    """
    function, n_inputs, shapes = list_cases()[name]
    ours = getattr(ow.ops, name)
    times = []
    for shape in shapes:
        draw = np.random.default_rng(1)
        arrays = [draw.uniform(0.5, 2.0, shape).astype(np.float32) for _ in range(n_inputs)]
        if not np.allclose(ours(*arrays), function(*arrays), rtol=TOLERANCE, atol=TOLERANCE):
            raise ValueError(f"{name}: NumPy must compute the same on {shape}, got something else")
        calls = [lambda a=arrays: ours(*a), lambda a=arrays: function(*a)]
        own, numpy = measure(calls, rounds, seconds)
        times.append({"shape": list(shape), "opwright_s": own, "numpy_s": numpy})
    chosen = explain(name, "cpu", "float32").chosen
    kernel = "" if chosen is None else f"{chosen.library} of {chosen.package.label}"
    return {"kernel": kernel, "n_inputs": n_inputs, "times": times}


def run_on_one_thread() -> int:
    """Run this script once more, with one thread for both sides; return its exit status.

    NumPy's library for products decides at its import, and on a busy machine threads that wait for
    each other would be measured, not operators.
    """
    environment = {**os.environ, **dict.fromkeys(ONE_THREAD, "1")}
    return subprocess.run([sys.executable, *sys.argv], env=environment, check=False).returncode


def main() -> int:
    """Measure what the command line names, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("operators", nargs="*", help="all by default")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.03, help="length of a turn")
    parser.add_argument("--output", type=Path, default=HERE / "operator_times.json")
    args = parser.parse_args()
    names = args.operators or list(list_cases())
    unknown = sorted(set(names) - set(list_cases()))
    if unknown:
        sys.exit(f"operator_times.py: unknown {unknown}; there are: {', '.join(list_cases())}")
    if any(os.environ.get(name) != "1" for name in ONE_THREAD):
        return run_on_one_thread()
    result = {
        "machine": describe_machine(),
        "numpy": np.__version__,
        "operators": {name: measure_operator(name, args.rounds, args.seconds) for name in names},
    }
    args.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
