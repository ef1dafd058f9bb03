"""The command ``opwright-simulate``, which predicts how training scales."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import opwright as ow
from opwright.commands import add_feed_argument, format_seconds, make_feeds, print_json, results_of
from opwright.errors import OpwrightError
from opwright_simulation import (
    NETWORKS,
    Forecast,
    Reliability,
    Report,
    get_network,
    rehearse,
    simulate,
    write_trace,
)
from opwright_simulation.forecasts import format_share

_RANKS: Final = "8,64,512,4096"
_HOUR_S: Final = 3600.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 1 for an error, or 2 for wrong usage."""
    args = _make_parser().parse_args(arguments)
    try:
        report = _simulate(args)
        if args.plot:
            report.plot(args.plot)
        if args.trace:
            write_trace(args.trace, {_label(f): f.timeline for f in report.forecasts})
    except (OpwrightError, OSError) as error:
        print(f"opwright-simulate: {error}", file=sys.stderr)
        return 1
    if args.json:
        print_json(_plain(report))
    else:
        print(_text(report))
    return 0


def _make_parser() -> argparse.ArgumentParser:
    command = argparse.ArgumentParser(
        prog="opwright-simulate",
        description="Measures the step of one process here, and predicts it on networks of "
        "others. The program has collectives, as opwright_dist.data_parallel appends them.",
    )
    command.add_argument("program", help="folder of a saved training program")
    _add_measured(command)
    _add_predicted(command)
    command.add_argument("--plot", metavar="FILE", help="draw the efficiency: .svg or .png")
    command.add_argument("--trace", metavar="FILE", help="write the timelines as a Chrome trace")
    command.add_argument("--json", action="store_true", help="print plain data")
    return command


def _add_measured(command: argparse.ArgumentParser) -> None:
    """Add the options of the local measurement."""
    add_feed_argument(command, ", the batch of one process")
    command.add_argument("--device", default="cpu", help="device to measure on (default: cpu)")
    command.add_argument("--runs", type=_count, default=30, help="runs to measure (default: 30)")


def _add_predicted(command: argparse.ArgumentParser) -> None:
    """Add the options for the number of processes, networks and failures."""
    networks, defaults = ",".join(NETWORKS), Reliability()
    command.add_argument(
        "--ranks", type=_list_of(_count), default=_RANKS, help=f"processes (default: {_RANKS})"
    )
    command.add_argument(
        "--network", type=_list_of(str), default=networks, help=f"networks (default: {networks})"
    )
    for name, default, meaning in (
        ("--spread", 0.02, "relative standard deviation of the time of a process"),
        ("--mtbf-hours", math.inf, "mean hours between failures of one process"),
        ("--checkpoint-s", defaults.checkpoint_s, "seconds that a checkpoint takes"),
        ("--restart-s", defaults.restart_s, "seconds from a failure to the restart"),
    ):
        command.add_argument(
            name, type=float, default=default, help=f"{meaning} (default: {default:g})"
        )
    command.add_argument(
        "--interval-s", type=float, help="seconds between checkpoints (default: the best)"
    )


def _list_of(convert: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    def parse(text: str) -> list[Any]:
        return [convert(part.strip()) for part in text.split(",")]

    return parse


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 1, got {text!r}")
    return int(text)


def _simulate(args: argparse.Namespace) -> Report:
    networks = [get_network(name) for name in args.network]
    scope = ow.Scope()
    loaded = ow.load(args.program, scope)
    feeds = make_feeds("opwright-simulate", loaded, args.feed)
    step = rehearse(
        loaded.program,
        feeds,
        results_of(loaded),
        scope=scope,
        device=args.device,
        runs=args.runs,
    )
    reliability = Reliability(
        args.mtbf_hours * _HOUR_S, args.checkpoint_s, args.restart_s, args.interval_s
    )
    return simulate(step, args.ranks, networks, spread=args.spread, reliability=reliability)


def _text(report: Report) -> str:
    first = report.forecasts[0]
    lines = [f"one process alone: {format_seconds(first.alone_s)} a step", "", str(report)]
    lines += [f"{network.name}: {network.comment}" for network in _networks(report)]
    intervals = {f.ranks: f.interval_s for f in report.forecasts if f.interval_s is not None}
    lines += [
        f"{ranks} processes: a checkpoint every {format_seconds(interval)}"
        for ranks, interval in intervals.items()
    ]
    return "\n".join(lines)


def _networks(report: Report) -> list[Any]:
    return list({forecast.network.name: forecast.network for forecast in report.forecasts}.values())


def _plain(report: Report) -> dict[str, Any]:
    return {
        "networks": {
            network.name: {
                "ranks_per_node": network.ranks_per_node,
                "inside": network.inside._asdict(),
                "between": network.between._asdict(),
            }
            for network in _networks(report)
        },
        "forecasts": [_plain_forecast(forecast) for forecast in report.forecasts],
    }


def _plain_forecast(forecast: Forecast) -> dict[str, Any]:
    return {
        "network": forecast.network.name,
        "ranks": forecast.ranks,
        "alone_s": forecast.alone_s,
        "step_s": forecast.step_s,
        "examples_per_s": forecast.examples_per_s,
        "efficiency": forecast.efficiency,
        "useful_share": forecast.useful_share,
        "interval_s": forecast.interval_s,
        "losses": forecast.losses,
        "limit": forecast.limit,
    }


def _label(forecast: Forecast) -> str:
    share = format_share(forecast.efficiency)
    return f"{forecast.network.name}, {forecast.ranks} processes: {share}"
