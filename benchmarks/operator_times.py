"""Measure every operator and its gradient in opwright, PyTorch and NumPy, for the site.

``make bench-operators`` measures all of `operator_cases` and writes ``build/operator_times.json``,
from which ``make docs`` draws a page and puts times on the operators' pages. ``make bench-operators
ARGS="add exp --output some.json"`` measures only the named operators. With ``--resume``, an
interrupted run continues.

Every implementation runs in a separate process with the same number of threads (NumPy has one,
except for matrix products). Every round times each implementation, so a slow moment of the machine
affects all of them. Operators are called eagerly, in opwright on NumPy arrays and in PyTorch on
tensors. A gradient is measured together with its operator, in opwright as one compiled program and
in PyTorch with autograd.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import opwright as ow
from operator_case import SIZES, Case
from operator_cases import REASONS, list_cases
from opwright.kernel import explain
from report import describe_machine

HERE: Final = Path(__file__).parent
OUTPUT: Final = HERE.parent / "build" / "operator_times.json"
LIMIT: Final = 1.3
"""Rows with a higher ratio to PyTorch need a reason in `operator_cases.REASONS`."""

TOLERANCE: Final = 1e-2
"""The tolerance of the sums on which implementations must agree; only different operators exceed
it."""

SHORT_WAIT: Final = {"OPENBLAS_THREAD_TIMEOUT": "20"}
"""Makes NumPy's threads spin for 2²⁰ clock cycles while they wait for work. With 2²⁶, the default,
they would still occupy a processor when the next implementation runs."""

IMPLEMENTATIONS: Final = ("opwright", "torch", "numpy")
UNLIKE: Final = {"dropout", "uniform", "normal", "masked_log_softmax"}
"""Random operators and operators with masked positions, whose sums can differ from PyTorch."""


class Implementation:
    """A process that prepares and times cases."""

    def __init__(self, name: str, python: str, n_threads: int) -> None:
        self.name = name
        count = str(n_threads)
        names = ("OPWRIGHT_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
        self._process = subprocess.Popen(
            [python, str(HERE / "operator_implementation.py"), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **dict.fromkeys(names, count), **SHORT_WAIT},
        )

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send a request and return the answer."""
        self.send(**request)
        return self.receive()

    def send(self, **request: Any) -> None:
        """Send a request; `receive` waits for the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """Return the answer to the last request."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"{self.name} ended with {self._process.wait()}; its error is above")
        answer: dict[str, Any] = json.loads(line)
        return answer


def measure(
    case: Case, number: int, gradient: bool, implementations: Sequence[Implementation], args: Any
) -> dict[str, Any] | None:
    """Return the times of a case by implementation, or None if opwright or PyTorch lacks it."""
    proto = ow.current_context().ops.get(case.op).proto
    filled = {
        "attrs": proto.fill_attrs(dict(case.attrs)),
        "defaults": {attr.name: attr.default for attr in proto.attrs if attr.has_default},
    }
    sums: dict[str, float] = {}
    for implementation in implementations:  # prepared concurrently; only timed runs alternate
        implementation.send(case=number, gradient=gradient, **filled)
    answers = {implementation.name: implementation.receive() for implementation in implementations}
    for name, answer in answers.items():
        if "sum" in answer:
            sums[name] = answer["sum"]
        elif name != "numpy":
            print(f"  {case.op}: {name} lacks it: {answer['lacks']}", file=sys.stderr)
            return None
    _check_sums(case, sums)
    times: dict[str, list[float]] = {name: [] for name in sums}
    for _ in range(args.rounds):
        for implementation in implementations:
            if implementation.name in sums:
                times[implementation.name] += implementation.ask(seconds=args.seconds)["times"]
    seconds = {f"{name}_s": statistics.median(values) for name, values in times.items()}
    is_slow = seconds["opwright_s"] > LIMIT * seconds["torch_s"]
    reason = REASONS.get((case.op, case.layout)) if is_slow else None
    return {
        "size": case.size,
        "layout": case.layout,
        "gradient": gradient,
        **seconds,
        **({"reason": reason} if reason else {}),
    }


def measure_operator(
    numbers: Sequence[int], implementations: Sequence[Implementation], args: Any
) -> Iterator[dict[str, Any]]:
    """Measure and print the cases of one operator, given by their indices."""
    all_cases = list_cases()
    for number in numbers:
        case = all_cases[number]
        for gradient in (False, True) if case.graded and not args.no_gradients else (False,):
            row = measure(case, number, gradient, implementations, args)
            if row is not None:
                print_row(case.op, row)
                yield row


def _check_sums(case: Case, sums: Mapping[str, float]) -> None:
    scale = max(1.0, *(abs(total) for total in sums.values()))
    apart = max(sums.values()) - min(sums.values())
    if apart > TOLERANCE * scale + 1e-3 * math.sqrt(case.size) and case.op not in UNLIKE:
        sys.exit(f"{case.op} {case.layout}: implementations must agree, got the sums {dict(sums)}")


def print_row(op_type: str, row: Mapping[str, Any]) -> None:
    """Print one line of the table."""
    name = f"{op_type} {row['layout']}".strip() + (" + gradient" if row["gradient"] else "")
    ours, torch = row["opwright_s"], row["torch_s"]
    print(
        f"{name:44} {row['size']:>10,} {ours * 1e6:12.1f} {torch * 1e6:12.1f} {ours / torch:6.2f}"
    )


def summarize(operators: Mapping[str, Any]) -> dict[str, float]:
    """Return the geometric means of the ratios to PyTorch, overall and by size."""
    rows = [row for measured in operators.values() for row in measured["times"]]
    sizes = sorted({row["size"] for row in rows})
    chosen = {"all": rows, **{str(n): [r for r in rows if r["size"] == n] for n in sizes}}
    return {
        name: math.exp(
            statistics.fmean(math.log(row["opwright_s"] / row["torch_s"]) for row in part)
        )
        for name, part in chosen.items()
    }


def list_unexplained(operators: Mapping[str, Any]) -> list[str]:
    """Return the slow rows for which no reason is given."""
    return [
        f"{op_type} {row['layout']}".strip()
        for op_type, measured in operators.items()
        for row in measured["times"]
        if row["opwright_s"] > LIMIT * row["torch_s"] and "reason" not in row
    ]


def name_kernel(op_type: str) -> str:
    """Return the kernel that is used for float32 on the CPU."""
    if ow.current_context().ops.get(op_type).body is not None:
        return "its body"
    chosen = explain(op_type, "cpu", "float32").chosen
    return "" if chosen is None else f"{chosen.library} of {chosen.package.label}"


def parse() -> argparse.Namespace:
    """Return the command-line arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("operators", nargs="*", help="all by default")
    parser.add_argument("--peers", required=True, help="the interpreter that has PyTorch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.02, help="length of a turn")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, choices=SIZES)
    parser.add_argument("--no-gradients", action="store_true")
    parser.add_argument("--resume", action="store_true", help="keep the times in the output")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    args = parser.parse_args()
    known = {case.op for case in list_cases()}
    unknown = sorted(set(args.operators) - known)
    if unknown:
        sys.exit(f"operator_times.py: unknown {unknown}; there are: {', '.join(sorted(known))}")
    return args


def write(output: Path, about: Mapping[str, Any], operators: Mapping[str, Any]) -> None:
    """Write the times measured so far."""
    output.parent.mkdir(exist_ok=True)
    measured = {"summary": summarize(operators), "operators": dict(sorted(operators.items()))}
    output.write_text(json.dumps({**about, **measured}, indent=1) + "\n", encoding="utf-8")


def read_measured(output: Path, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the times of an interrupted run; exit if its machine or versions differ."""
    result: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
    passing = {"date": None, "load_average": None}
    for key, value in about.items():
        before, now = (
            {**one, **passing} if key == "machine" else one for one in (result[key], value)
        )
        if before != now:
            sys.exit(
                f"operator_times.py: {output} must have the same {key} to resume, got {result[key]}"
            )
    measured: dict[str, Any] = result["operators"]
    return measured


def choose(args: argparse.Namespace, operators: Mapping[str, Any]) -> dict[str, list[int]]:
    """Return case indices by operator: all cases of named operators, or all unmeasured cases."""
    types = set(ow.current_context().ops.types())
    measured = {(op, row["size"]) for op in operators for row in operators[op]["times"]}
    numbers: dict[str, list[int]] = {}
    for number, case in enumerate(list_cases()):
        is_open = case.op in args.operators or (case.op, case.size) not in measured
        is_named = case.op in (args.operators or types)
        if is_open and is_named and case.size in args.sizes:
            numbers.setdefault(case.op, []).append(number)
    return numbers


def main() -> int:
    """Measure the named operators, and write the file after each."""
    args = parse()
    if not Path(args.peers).exists():
        sys.exit(f"operator_times.py: --peers must name an interpreter, got {args.peers}")
    pythons = {"opwright": sys.executable, "torch": args.peers, "numpy": args.peers}
    implementations = [
        Implementation(name, pythons[name], args.threads) for name in IMPLEMENTATIONS
    ]
    versions = {
        peer: implementations[i].ask(version=peer)["version"]
        for i, peer in enumerate(IMPLEMENTATIONS)
    }
    about = {
        "machine": {**describe_machine(), "threads": args.threads},
        "torch": versions["torch"],
        "numpy": versions["numpy"],
        "limit": LIMIT,
    }
    operators = read_measured(args.output, about) if args.resume else {}
    numbers = choose(args, operators)
    print(f"{'operator':44} {'size':>10} {'opwright µs':>12} {'PyTorch µs':>12}  ratio")
    for op_type, cases in numbers.items():
        rows = list(measure_operator(cases, implementations, args))
        if rows:
            sizes = {row["size"] for row in rows}
            before = operators.get(op_type, {"times": []})["times"]
            kept = [row for row in before if row["size"] not in sizes]
            times = sorted(kept + rows, key=lambda row: row["size"])
            operators[op_type] = {"kernel": name_kernel(op_type), "times": times}
            write(args.output, about, operators)
    print("geometric mean of the ratios to PyTorch:", summarize(operators))
    unexplained = list_unexplained(operators)
    print(
        *(f"{name}: slow without a reason in operator_cases.py" for name in unexplained), sep="\n"
    )
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
