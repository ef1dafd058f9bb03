"""Formats results as a table for people, JSON for programs, and Markdown for the documentation."""

from __future__ import annotations

import datetime
import os
import platform
import shutil
import statistics
import subprocess
from pathlib import Path
from typing import Any

from rounds import Result
from workload import Goal, Workload, is_ours

Row = tuple[Workload, list[Result]]


def format_figure(value: float) -> str:
    """Format a figure with at least three digits."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def find_best(workload: Workload, results: list[Result], prefix: str = "") -> Result | None:
    """Return the best peer with this name prefix, or the opwright implementation of this name.

    Without a prefix, copies are ignored.
    """
    peers = [
        result
        for result in results
        if result.figures
        and not result.problem
        and (not is_ours(result.implementation) or result.implementation == prefix)
        and (
            result.implementation.startswith(prefix)
            if prefix
            else result.implementation[:4] != "copy"
        )
    ]
    choose = max if workload.more_is_better else min
    return choose(peers, key=lambda result: result.median or 0.0) if peers else None


def describe_goal(workload: Workload, goal: Goal) -> str:
    """Describe the goal."""
    sign = "≥" if workload.more_is_better else "≤"
    if goal.figure is not None:
        return f"{sign} {goal.figure:g} {workload.unit}"
    return f"{sign} {goal.ratio:g} of {goal.of or 'the best peer'}"


def check_goal(workload: Workload, results: list[Result], ours: Result, goal: Goal) -> bool | None:
    """Return whether the goal is reached, or None if it was not measured."""
    if ours.median is None or ours.problem:
        return None
    limit = goal.figure
    if limit is None:
        best = find_best(workload, results, goal.of)
        if best is None or best.median is None or goal.ratio is None:
            return None
        limit = goal.ratio * best.median
    return ours.median >= limit if workload.more_is_better else ours.median <= limit


def check_goals(row: Row, ours: Result) -> list[tuple[str, bool | None]]:
    """Return each goal of an opwright implementation, and whether it is reached."""
    workload, results = row
    return [
        (describe_goal(workload, goal), check_goal(workload, results, ours, goal))
        for goal in workload.goals.get(ours.implementation, [])
    ]


def find_tenth(workload: Workload, result: Result) -> float:
    """Return the 10th percentile of times, or the 90th percentile of rates."""
    ordered = sorted(result.figures, reverse=workload.more_is_better)
    return ordered[len(ordered) // 10]


def find_ratio(row: Row, result: Result) -> float | None:
    """Return the figure divided by the figure of the best peer."""
    best = find_best(*row)
    if best is None or not best.median or result.median is None:
        return None
    return result.median / best.median


VERDICTS = {True: "reached", False: "missed", None: "unmeasured"}


def format_row(row: Row) -> str:
    """Return the table of one workload."""
    workload, results = row
    lines = [f"{workload.title}  [{workload.name}]"]
    for result in results:
        if result.median is None or result.problem:
            lines.append(f"  {result.implementation:28}{result.problem or 'no times'}")
            continue
        noisy = "~" if result.is_noisy else " "
        best = max if workload.more_is_better else min
        ratio = find_ratio(row, result)
        lines.append(
            f"  {result.implementation:28}{noisy}{format_figure(result.median):>9}"
            f" {workload.unit:8}"
            f" (best tenth {format_figure(find_tenth(workload, result)):>8},"
            f" best {format_figure(best(result.figures)):>8})"
            + (f"  {ratio:6.2f} of the best peer" if ratio is not None else "")
        )
        lines += [f"      {text}: {VERDICTS[is_met]}" for text, is_met in check_goals(row, result)]
    return "\n".join(lines)


def find_gpu() -> str:
    """Return the name and driver of the first NVIDIA GPU, or '' if there is none."""
    if shutil.which("nvidia-smi") is None:
        return ""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader", "-i", "0"]
    done = subprocess.run(query, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def describe_machine() -> dict[str, Any]:
    """Describe the environment in which the figures were measured."""
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    names = [line.split(":")[1].strip() for line in info.splitlines() if "model name" in line]
    return {
        "processor": names[0] if names else platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "instructions": [
            name
            for name in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16")
            if name in info.split()
        ],
        "gpu": find_gpu(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "load_average": round(os.getloadavg()[0], 1),
        "date": datetime.date.today().isoformat(),
    }


def to_json(rows: list[Row], machine: dict[str, Any], versions: dict[str, str]) -> dict[str, Any]:
    """Return all results as data."""
    return {
        "machine": machine,
        "versions": versions,
        "workloads": [
            {
                "name": workload.name,
                "title": workload.title,
                "unit": workload.unit,
                "more_is_better": workload.more_is_better,
                "best_peer": _name_of(find_best(workload, results)),
                "results": [result_to_json((workload, results), result) for result in results],
            }
            for workload, results in rows
        ],
    }


def _name_of(result: Result | None) -> str | None:
    return None if result is None else result.implementation


def result_to_json(row: Row, result: Result) -> dict[str, Any]:
    """Return the results of one implementation."""
    found: dict[str, Any] = {"implementation": result.implementation}
    if result.problem:
        found["problem"] = result.problem
    if result.figures:
        quartiles = statistics.quantiles([*result.figures, *result.figures[:1]], n=4)
        found |= {
            "median": result.median,
            "best_tenth": find_tenth(row[0], result),
            "quartiles": [quartiles[0], quartiles[2]],
            "least": min(result.figures),
            "most": max(result.figures),
            "repeats": len(result.figures),
            "disturbed_repeats": result.n_disturbed,
            "is_noisy": result.is_noisy,
            "ratio_to_best_peer": find_ratio(row, result),
        }
    if is_ours(result.implementation):
        found["goals"] = [
            {"goal": text, "reached": is_met} for text, is_met in check_goals(row, result)
        ]
    return found


def to_markdown(rows: list[Row], machine: dict[str, Any], versions: dict[str, str]) -> str:
    """Return a description of the machine, and a table with a line per opwright implementation."""
    peers = ", ".join(f"{name} {version}" for name, version in versions.items())
    gpu = f"{machine['gpu']}, " if machine["gpu"] else ""
    lines = [
        (
            f"Measured on {machine['cores']} cores of {machine['processor']} "
            f"({', '.join(machine['instructions'])}), "
            f"{gpu}Python {machine['python']}, {peers}, "
            f"{machine['date']}; medians."
        ),
        "",
        "| what | ours | best peer | ratio | goal |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        workload, results = row
        best = find_best(*row)
        against = "–"
        if best is not None and best.median is not None:
            against = f"{best.implementation} {format_figure(best.median)} {workload.unit}"
        for ours in (result for result in results if is_ours(result.implementation)):
            variant = ours.implementation.removeprefix("opwright").strip(" ,")
            what = f"{workload.title}, {variant}" if variant else workload.title
            if ours.median is None or ours.problem:
                lines.append(f"| {what} | {ours.problem} | {against} | – | – |")
                continue
            ratio = find_ratio(row, ours)
            goals = "; ".join(f"{text}: {VERDICTS[met]}" for text, met in check_goals(row, ours))
            lines.append(
                f"| {what} | {format_figure(ours.median)} {workload.unit} | {against} | "
                f"{'–' if ratio is None else f'{ratio:.2f}'} | {goals or '–'} |"
            )
    return "\n".join(lines) + "\n"
