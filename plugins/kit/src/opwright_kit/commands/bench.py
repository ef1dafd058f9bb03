"""``opwright bench``: times the kernels of an operator on the same inputs, and compares them."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from statistics import median, quantiles
from typing import Any, NamedTuple

from opwright import Context, current_context, get_num_threads
from opwright.commands import align, print_json, resolving
from opwright.device import HOST_DEVICE, DeviceName, get_device
from opwright.errors import CommandError, OpwrightError
from opwright.kernel import ANY, MAX_THREADS, KernelEntry, Refuse
from opwright.op import Meta
from opwright.rewriting import size_bytes
from opwright_kit.commands.arguments import (
    choose_dtype,
    describe_sample,
    make_sample,
    read_attributes,
    read_shapes,
)
from opwright_kit.commands.timing import KernelTimer, measure_in_turn
from opwright_kit.testing.rules.reference import Expected, find_fault
from opwright_kit.testing.samples.sample import Sample

_TITLE = ("library", "device", "package", "median", "spread", "of fastest", "traffic", "result")

_EPILOG = (
    "Times are of the kernel alone: a plan that runs it many times is compared with a plan that "
    "runs it once. The spread is half of the interquartile range of the rounds. The traffic is the "
    "bytes of inputs and outputs divided by the median time."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: the operator, its inputs and attributes, and the options of the runs."""
    parser.epilog = _EPILOG
    parser.add_argument("type", help="operator type")
    several: list[tuple[str, str, str]] = [
        ("--feed", "NAME=64x10", "shape of an input, with :DTYPE where needed; repeatable"),
        ("--attr", "NAME=VALUE", "an attribute, lists as 1,2; repeatable"),
        ("--device", "DEVICE", "device; repeatable (default: cpu)"),
    ]
    for option, metavar, text in several:
        parser.add_argument(option, metavar=metavar, action="append", default=[], help=text)
    parser.add_argument("--dtype", help="dtype that selects the kernel (default: float32)")
    parser.add_argument(
        "--rounds", type=int, default=15, help="rounds over all kernels (default: 15)"
    )
    parser.add_argument("--threads", type=int, help="threads of a kernel (default: as in plans)")


class Timing(NamedTuple):
    """The result for one kernel.

    Attributes
    ----------
    entry : KernelEntry
    device : str
        Where it ran.
    times_s : list of float
        Seconds of one run in each round; empty if it did not run.
    repeat : int
        Runs in each round.
    n_bytes : int
        Bytes of inputs and outputs.
    result : str
        ``"reference"``, ``"agrees"``, ``"alone"`` if there is no other kernel, how it differs, or
        why it did not run.
    """

    entry: KernelEntry
    device: str
    times_s: list[float]
    repeat: int
    n_bytes: int
    result: str

    @property
    def is_sound(self) -> bool:
        """Whether the kernel ran and agrees with the reference."""
        return self.result in {_REFERENCE, _AGREES, _ALONE}

    @property
    def median_s(self) -> float:
        """The time of one run; infinite if the kernel did not run."""
        return median(self.times_s) if self.times_s else float("inf")

    @property
    def spread_s(self) -> float:
        """Half of the interquartile range of the round times."""
        if len(self.times_s) < 2:
            return 0.0
        low, _, high = quantiles(self.times_s, n=4, method="inclusive")
        return (high - low) / 2

    @property
    def bytes_per_s(self) -> float | None:
        """Bytes of inputs and outputs divided by the median time in seconds, or None if unknown."""
        return self.n_bytes / self.median_s if self.times_s and self.median_s else None

    def to_json(self, fastest_s: float) -> dict[str, Any]:
        """Return the result as plain data."""
        ran = bool(self.times_s)
        return {
            **self.entry.key._asdict(),
            "device": self.device,
            "priority": self.entry.priority,
            "package": self.entry.package._asdict(),
            "median_s": self.median_s if ran else None,
            "spread_s": self.spread_s if ran else None,
            "of_fastest": fastest_s / self.median_s if ran and self.median_s else None,
            "bytes_per_s": self.bytes_per_s,
            "repeat": self.repeat,
            "times_s": self.times_s,
            "result": self.result,
        }


_REFERENCE = "reference"
_AGREES = "agrees"
_ALONE = "alone"


def run(args: argparse.Namespace) -> int:
    """Time the kernels and print the table; return 1 if a kernel fails or differs, or none ran."""
    context = current_context()
    try:
        with resolving():
            sample = _read_sample(args, context)
        report = _measure(sample, args, context)
    except MemoryError as error:
        raise CommandError(
            f"bench: memory must hold several copies of the inputs, got {args.feed}; shorten axes"
        ) from error
    if args.json:
        print_json(report.to_json())
    else:
        print("\n".join(report.lines()))
    ran = [timing for timing in report.timings if timing.times_s]
    return 0 if ran and not any(t.result.startswith(_BAD) for t in report.timings) else 1


def _read_sample(args: argparse.Namespace, context: Context) -> Sample:
    """Return the inputs described by the command-line arguments."""
    definition = context.ops.get(args.type)
    proto = definition.proto
    known = [e.dtype for e in context.kernels.sort(context.kernels.entries(args.type))]
    dtype = choose_dtype(definition, args.dtype, [name for name in known if name != ANY])
    words = list(args.attr)
    if proto.dispatch_slot in proto.attr_protos:
        words.append(f"{proto.dispatch_slot}={dtype}")
    attrs = read_attributes(words, proto)
    return make_sample(definition, read_shapes(args.feed, proto), attrs, dtype)


def _measure(sample: Sample, args: argparse.Namespace, context: Context) -> _Report:
    """Time every candidate on every device, and compare their results."""
    definition = context.ops.get(args.type)
    n_threads = _check_counts(args)
    devices = list(dict.fromkeys(args.device)) or [HOST_DEVICE]
    with resolving():
        outputs = sample.infer(definition)
        entries_by_device = [(d, _candidates(context, args.type, d, sample.dtype)) for d in devices]
    candidates = [(entry, device) for device, entries in entries_by_device for entry in entries]
    timers, timings = _prepare(candidates, sample, n_threads, context)
    times = measure_in_turn(list(timers.values()), args.rounds)
    results = _compare(timers, sample)
    n_bytes = _count_bytes(sample, definition.proto.inputs, outputs)
    for index, (key, timer) in enumerate(timers.items()):
        entry, device = candidates[key]
        timings[key] = Timing(entry, device, times[index], timer.repeat, n_bytes, results[key])
    ranked = sorted((timings[key] for key in sorted(timings)), key=lambda t: t.median_s)
    inputs = describe_sample(sample, definition.proto)
    return _Report(args.type, inputs, sample.dtype, n_threads, args.rounds, ranked)


_BAD = ("differs", "fails")


def _check_counts(args: argparse.Namespace) -> int:
    if not 1 <= args.rounds <= 1000:
        raise CommandError(f"bench: --rounds must be in [1, 1000], got {args.rounds}")
    if args.threads is None:
        return get_num_threads()
    if not 1 <= args.threads <= MAX_THREADS:
        raise CommandError(f"bench: --threads must be in [1, {MAX_THREADS}], got {args.threads}")
    return int(args.threads)


def _candidates(context: Context, op_type: str, device: str, dtype: str) -> tuple[KernelEntry, ...]:
    """Return the kernels in the order in which a plan would try them.

    Raises
    ------
    DeviceNotFoundError, KernelNotFoundError
        If the device is not available, or no kernel is registered for it and the dtype.
    """
    kind, number = DeviceName.parse(device)
    if number:
        raise CommandError(
            f"bench: kernels are timed on the first device of a type, got {device!r}; "
            f"write {kind!r}"
        )
    entries = context.candidates(op_type, kind, dtype)
    if not entries:
        raise context.kernels.not_found(op_type, kind, dtype)
    get_device(device, context)
    return entries


def _prepare(
    candidates: Sequence[tuple[KernelEntry, str]],
    sample: Sample,
    n_threads: int,
    context: Context,
) -> tuple[dict[int, KernelTimer], dict[int, Timing]]:
    """Return a timer for each kernel that runs, and the reason for each kernel that does not."""
    timers: dict[int, KernelTimer] = {}
    failed: dict[int, Timing] = {}
    for key, (entry, device) in enumerate(candidates):
        try:
            timers[key] = KernelTimer(entry, sample, device, n_threads, context)
        except Refuse as refusal:
            failed[key] = Timing(entry, device, [], 0, 0, f"refuses: {refusal.reason}")
        except OpwrightError as error:
            failed[key] = Timing(entry, device, [], 0, 0, f"fails: {error}")
    return timers, failed


def _compare(timers: dict[int, KernelTimer], sample: Sample) -> dict[int, str]:
    """Return for each kernel whether it agrees with the reference.

    The reference is the host kernel with the lowest priority, by convention the plainest kernel.
    """
    if not timers:
        return {}
    order = sorted(
        timers,
        key=lambda key: (timers[key].entry.device != HOST_DEVICE, timers[key].entry.priority),
    )
    reference = timers[order[0]]
    expected = Expected(reference.run.outputs, reference.entry.library)
    results = {}
    for key, timer in timers.items():
        fault = find_fault(timer.run.outputs, expected, sample)
        results[key] = _AGREES if fault is None else f"differs: {fault}"
    results[order[0]] = _REFERENCE if len(timers) > 1 else _ALONE
    return results


def _count_bytes(sample: Sample, slots: Sequence[Any], outputs: Sequence[Sequence[Meta]]) -> int:
    """Return the minimum bytes that a kernel reads and writes; unknown sizes count as 0."""
    read = sum(
        array.nbytes
        for slot in slots
        if not slot.shape_only
        for array in sample.inputs.get(slot.name, ())
    )
    metas = [meta for slot_metas in outputs for meta in slot_metas if -1 not in meta.shape]
    return read + sum(map(size_bytes, metas))


class _Report(NamedTuple):
    """The table of timings, and how they were measured."""

    op_type: str
    inputs: str
    dtype: str
    n_threads: int
    n_rounds: int
    timings: list[Timing]

    def lines(self) -> list[str]:
        """Return the table as lines of text."""
        title = textwrap.wrap(f"{self.op_type}[{self.dtype}] of {self.inputs}", 100)
        rows = [_TITLE, *(self._row(timing) for timing in self.timings if timing.times_s)]
        lines = [*title, *(align(rows, right={3, 4, 5, 6}) if len(rows) > 1 else [])]
        for timing in self.timings:
            if not timing.is_sound:
                where = f"{timing.entry.library}[{timing.device}] of {timing.entry.package.label}"
                lines.append(textwrap.indent(f"{where} {timing.result}", "  "))
        threads = "1 thread" if self.n_threads == 1 else f"{self.n_threads} threads"
        lines.append(f"{self.n_rounds} rounds, the kernels in turn, {threads}")
        return lines

    def _row(self, timing: Timing) -> tuple[str, ...]:
        fastest_s = self.timings[0].median_s
        share = f"{100 * fastest_s / timing.median_s:.3g}%" if timing.median_s else "100%"
        spread = f"{timing.spread_s / timing.median_s:.1%}" if timing.median_s else "-"
        rate = timing.bytes_per_s
        return (
            timing.entry.library,
            timing.device,
            timing.entry.package.label,
            format_time(timing.median_s),
            spread,
            share,
            "-" if rate is None else format_rate(rate),
            timing.result.partition(":")[0],
        )

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain data."""
        fastest_s = self.timings[0].median_s
        return {
            "op_type": self.op_type,
            "dtype": self.dtype,
            "inputs": self.inputs,
            "threads": self.n_threads,
            "rounds": self.n_rounds,
            "kernels": [timing.to_json(fastest_s) for timing in self.timings],
        }


def format_time(seconds: float) -> str:
    """Format a time with three digits and a unit: ``"12.3 us"``."""
    return _scaled(seconds, (("s", 1.0), ("ms", 1e3), ("us", 1e6), ("ns", 1e9)))


def format_rate(bytes_per_s: float) -> str:
    """Format a rate with three digits and a unit: ``"41.6 GB/s"``."""
    return _scaled(bytes_per_s, (("GB/s", 1e-9), ("MB/s", 1e-6), ("kB/s", 1e-3)))


def _scaled(value: float, units: Sequence[tuple[str, float]]) -> str:
    fitting = (pair for pair in units if value * pair[1] >= 1)
    unit, factor = next(fitting, units[-1])
    return f"{value * factor:.3g} {unit}"
