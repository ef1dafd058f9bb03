"""Reports of a compiled model: kernels by package, and operators computed by PyTorch."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from torch.fx import Node

from opwright.errors import MissingRequirementError
from opwright.plugin import suggest_arguments
from opwright_torch.calls.text import read
from opwright_torch.finding import find_graphs
from opwright_torch.module import Module
from opwright_torch.plans.forward import Forward
from opwright_torch.plans.region import Region, Uncaptured
from opwright_torch.training.step import TrainStep

Shares = Mapping[Any, float] | None

_LOGGER: Final = logging.getLogger("opwright_torch")
CALL_TYPES: Final = ("torch.call", "torch.random_call", "torch.call_grad")


WHOLE: Final = "the whole graph"


class CallRow(NamedTuple):
    """An operator that PyTorch computes.

    Attributes
    ----------
    operator : str
        Its name, such as ``aten.fft_fft.default``; ``"the whole graph"`` if it cannot be captured.
    reason : str
        The reason why opwright does not compute it.
    n : int
        Its number of occurrences in the graphs.
    share : float or None
        Fraction of the time of all plans including gradients, in [0, 1]; None if not measured.
    line : str
        File and line of the first occurrence in the model; empty if unknown.
    """

    operator: str
    reason: str
    n: int
    share: float | None
    line: str


class PackageRow(NamedTuple):
    """The kernels of one library of a package.

    Attributes
    ----------
    package, library : str
        The package with its version, and the library of the kernels.
    n : int
        The number of operators that the kernels compute.
    share : float or None
        Fraction of the time, as in `CallRow`.
    """

    package: str
    library: str
    n: int
    share: float | None


class Report(NamedTuple):
    """The report of a compiled model, for ``print(report(compiled))``.

    Attributes
    ----------
    graphs : int
        The number of graphs captured by Dynamo; more than one if there are graph breaks.
    plans : tuple of str
        How each graph runs: ``"inference"``, ``"one plan"``, ``"two plans"`` or
        ``"training step"``.
    packages : tuple of PackageRow
        The kernels, by descending share.
    calls : tuple of CallRow
        Operators that PyTorch computes inside the plans; empty if opwright computes all operators.
    """

    graphs: int
    plans: tuple[str, ...]
    packages: tuple[PackageRow, ...]
    calls: tuple[CallRow, ...]

    def __str__(self) -> str:
        kinds = ", ".join(f"{n} × {kind}" for kind, n in Counter(self.plans).items())
        n = len(self.plans)
        lines = [
            f"{self.graphs} graph{'s' * (self.graphs != 1)}, {n} plan{'s' * (n != 1)}: {kinds}"
        ]
        if not self.plans and not self.calls:
            return "no graph has run yet; call the compiled model first"
        lines += [
            f"  {row.n:5} operators  {_percent(row.share):>7}  {row.package} ({row.library})"
            for row in self.packages
        ]
        if not self.calls:
            return "\n".join([*lines, "PyTorch computes none of them"])
        lines.append("computed by PyTorch:")
        for row in self.calls:
            lines.append(f"  {row.n:5} × {row.operator}  {_percent(row.share):>7}  {row.reason}")
            lines += [f"          {row.line}"] if row.line else []
        return "\n".join(lines)


@suggest_arguments
def report(compiled: Callable[..., Any], *, measure: bool = True) -> Report:
    """Report on the graphs of a compiled model or function that have been called.

    Parameters
    ----------
    compiled : callable
        The result of ``torch.compile(..., backend="opwright")``, or of `train_step`; or an
        `opwright_torch.Module`, whose program is one graph with a plan per mode, without time
        measurements.
    measure : bool
        Whether to run each plan on synthetic inputs to measure shares of time; this needs
        opwright-kit. Buffers and parameters of the model are restored afterwards.

    Raises
    ------
    NotCompiledError
        If `compiled` is any other object.
    """
    if isinstance(compiled, Module):
        plans = compiled.plans
        kinds = tuple(plan.kind for plan in plans)
        return Report(1, kinds, tuple(_package_rows(plans, None)), tuple(_written_calls(plans)))
    graphs = find_graphs(compiled.compiled if isinstance(compiled, TrainStep) else compiled)
    plans = [p for graph in graphs if isinstance(graph, Region) for p in graph.plans[-1:]]
    whole = [graph.reason for graph in graphs if isinstance(graph, Uncaptured)]
    shares = _measure(plans) if measure else None
    return Report(
        len(graphs),
        tuple(plan.kind for plan in plans),
        tuple(_package_rows(plans, shares)),
        (*(CallRow(WHOLE, reason, 1, None, "") for reason in whole), *_call_rows(plans, shares)),
    )


def _measure(plans: list[Forward]) -> Shares:
    """Return the time share of each package and call, or None if it cannot be measured."""
    seconds: defaultdict[Any, float] = defaultdict(float)
    try:
        for plan in plans:
            for key, time in _time(plan):
                seconds[key] += time
    except MissingRequirementError:
        _LOGGER.info("report: opwright-kit is not installed, so times are not measured")
        return None
    total = sum(time for key, time in seconds.items() if isinstance(key, tuple))
    return {key: time / total for key, time in seconds.items()} if total else None


def _time(plan: Forward) -> Iterator[tuple[Any, float]]:
    """Yield the durations of steps in seconds, by package and library or by PyTorch call."""
    ops = plan.draft.program.global_block().ops
    for network, feeds in plan.samples():
        for row in network.profile(feeds, 5).rows:
            if row.depth == 0:
                yield (row.package, row.library), row.median_s
            if row.op_type in CALL_TYPES and row.operators:
                yield ops[row.operators[0]].attrs.get("call"), row.median_s


def _package_rows(plans: list[Forward], shares: Shares) -> list[PackageRow]:
    counts: Counter[tuple[str, str]] = Counter()
    for plan in plans:
        for network in plan.callables():
            last = network.plans.last
            for op in last.errors.ops if last is not None else ():  # the backward has not run
                if op.entry is not None:
                    counts[op.entry.package.label, op.entry.library] += 1
    rows = [
        PackageRow(*key, n, None if shares is None else shares.get(key, 0.0))
        for key, n in counts.items()
    ]
    return sorted(rows, key=lambda row: (-(row.share or 0), -row.n))


def _call_rows(plans: list[Forward], shares: Shares) -> list[CallRow]:
    found: dict[tuple[str, str], CallRow] = {}
    seen: set[str | None] = set()  # identical calls of all plans are measured together
    for plan in plans:
        texts = _texts_of(plan)
        for node, reason in plan.draft.translated.declined:
            key = str(node.target), reason
            row = found.get(key) or CallRow(*key, 0, None if shares is None else 0.0, _line(node))
            text = texts.get(node)
            if shares is not None and text not in seen:
                seen.add(text)
                row = row._replace(share=(row.share or 0.0) + shares.get(text, 0.0))
            found[key] = row._replace(n=row.n + 1)
    return sorted(found.values(), key=lambda row: (-(row.share or 0), -row.n))


def _written_calls(plans: list[Forward]) -> Iterator[CallRow]:
    """Yield the program operators that PyTorch computes."""
    ops = [op for plan in plans for op in plan.draft.program.global_block().ops]
    counts = Counter(
        ", ".join(read(str(op.attrs["call"])).names) for op in ops if op.type in CALL_TYPES
    )
    for names, n in counts.items():
        yield CallRow(names, "the program contains this operator", n, None, "")


def _texts_of(plan: Forward) -> dict[Node, str]:
    """Return the serialized call that computes a node."""
    nodes = plan.draft.translated.nodes
    return {
        nodes[name]: str(op.attrs["call"])
        for op in plan.draft.program.global_block().ops
        if op.type in CALL_TYPES
        for name in op.output_names()
        if name in nodes
    }


def _line(node: Node) -> str:
    """Return the file, line and text of the call in the model, or '' if unknown."""
    trace = (node.meta.get("stack_trace") or "").splitlines()
    lines = [line.strip() for line in trace if line.strip(" ^~")]
    return ": ".join(lines[-2:])


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"
