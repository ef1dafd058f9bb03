"""Measure opwright and its peers alternately, each in a separate process, and print a table.

``run.py`` measures all workloads; ``run.py mlp-train-64 'bandwidth-*'`` measures only some. The
exit status is 1 if an implementation failed or its results differ from other implementations.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from chart import draw_chart
from report import Row, describe_machine, format_row, to_json, to_markdown
from rounds import Comparison, Settings, run
from workload import Workload, is_ours, load_workloads

HERE = Path(__file__).parent
VERSIONS = """
import importlib.metadata, json
names = "numpy", "torch", "jax", "onnxruntime", "onednn-cpu-gomp", "triton", "nvidia-cublas"
found = {}
for name in names:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


def load_folder(folder: Path) -> list[tuple[Workload, Path]]:
    """Return the workloads of all files in a folder, each with its file."""
    files = sorted(folder.glob("*.py"))
    return [(workload, file) for file in files for workload in load_workloads(file)]


def choose(all_of_them: list[tuple[Workload, Path]], patterns: list[str]) -> list[int]:
    """Return the indices of the workloads that match a pattern."""
    chosen: set[int] = set()
    for pattern in patterns:
        matching = {
            index
            for index, (workload, _) in enumerate(all_of_them)
            if fnmatch.fnmatch(workload.name, pattern)
        }
        if not matching:
            names = ", ".join(workload.name for workload, _ in all_of_them)
            sys.exit(f"run.py: no workload is called {pattern!r}; there are: {names}")
        chosen |= matching
    return sorted(chosen)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="*", help="names or patterns; all by default")
    parser.add_argument(
        "--list", action="store_true", help="list the workloads and implementations"
    )
    parser.add_argument("--peers", default=sys.executable, help="the Python that has the peers")
    parser.add_argument("--only", action="append", help="pattern of implementations; repeatable")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each implementation")
    parser.add_argument("--seconds", type=float, default=0.3, help="length of a round")
    parser.add_argument(
        "--realtime",
        action="store_true",
        help="real-time scheduling in each round, for machines with other work; needs permission",
    )
    parser.add_argument(
        "--together",
        type=int,
        default=0,
        metavar="N",
        help="prepare the implementations of N workloads concurrently; default: one by one",
    )
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--markdown", type=Path, help="write a table to this file")
    parser.add_argument(
        "--chart", type=Path, help="draw opwright compared with the best peer into this SVG"
    )
    parser.add_argument("--folder", type=Path, default=HERE / "workloads", help=argparse.SUPPRESS)
    return parser.parse_args()


def list_implementations(workload: Workload, patterns: list[str] | None) -> list[str]:
    """Return the names that match a pattern, opwright's implementations first."""
    names = sorted(workload.implementations, key=lambda name: not is_ours(name))
    if patterns is None:
        return names
    return [name for name in names if any(fnmatch.fnmatch(name, part) for part in patterns)]


def find_versions(python: str) -> dict[str, str]:
    """Return the versions of the peers installed for an interpreter."""
    printed = subprocess.run([python, "-c", VERSIONS], capture_output=True, text=True, check=True)
    versions: dict[str, str] = json.loads(printed.stdout)
    return versions


def write_chart(path: Path, result: dict[str, Any]) -> None:
    """Draw the chart; fail if no peer was measured."""
    try:
        path.write_text(draw_chart(result), encoding="utf-8")
    except ValueError as error:
        sys.exit(f"run.py: {error}")


def main() -> int:
    """Run the workloads named on the command line."""
    args = parse_arguments()
    everything = load_folder(args.folder)
    chosen = choose(everything, args.workloads or ["*"])
    if args.list:
        for workload, _ in (everything[index] for index in chosen):
            print(f"{workload.name:20}{', '.join(list_implementations(workload, args.only))}")
        return 0
    settings = Settings(sys.executable, args.peers, args.rounds, args.seconds, args.realtime)
    machine, versions = describe_machine(), find_versions(args.peers)
    comparisons = [
        Comparison(workload, file, settings, list_implementations(workload, args.only))
        for workload, file in (everything[index] for index in chosen)
    ]
    rows: list[Row] = []
    for row in run(comparisons, args.together):
        rows.append(row)
        print(format_row(row), flush=True)
    if any(found.is_noisy for _, results in rows for found in results):
        print(
            "~ nearly all repeats were preempted by other processes; run again, or with --realtime"
        )
    result = to_json(rows, machine, versions)
    if args.json:
        text = json.dumps(result, indent=1, ensure_ascii=False)
        args.json.write_text(text + "\n", encoding="utf-8")
    if args.markdown:
        args.markdown.write_text(to_markdown(rows, machine, versions), encoding="utf-8")
    if args.chart:
        write_chart(args.chart, result)
    return int(any(found.is_wrong for _, results in rows for found in results))


if __name__ == "__main__":
    sys.exit(main())
