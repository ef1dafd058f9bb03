"""The requirements of an ONNX model: operators and their packages, kernels, operations, memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import opwright as ow
from opwright.commands import align, make_feeds
from opwright.errors import CommandError, OpwrightError
from opwright_onnx.errors import ValueNeededError
from opwright_onnx.loading import read_dims, read_model
from opwright_onnx.messages import GraphProto, ModelProto, NodeProto
from opwright_onnx.opening import load
from opwright_onnx.translate.model import read_opsets
from opwright_onnx.translate.node import PREFIX
from opwright_onnx.translate.own import find_own
from opwright_onnx.translate.schemas import find_schema
from opwright_onnx.translate.table import TOPIC

Shapes = Mapping[str, Sequence[int]]
Plain = dict[str, Any]


def make_report(path: Path, feeds: Shapes) -> Plain:
    """Describe a model in plain data types.

    Parameters
    ----------
    path : Path
    feeds : mapping of str to sequence of int
        Shapes of inputs; dynamic sizes of other inputs are 1.
    """
    proto, *_ = read_model(path)
    opsets = read_opsets(proto.opset_import, "model")
    names = [entry.name for entry in proto.graph.input]
    for name in feeds:
        if name not in names:
            raise CommandError(
                f"onnx: --feed must name an input of the model, got {name!r}; they are {names}"
            )
    return {
        "model": path.name,
        "producer": f"{proto.producer_name} {proto.producer_version}".strip(),
        "opsets": opsets,
        "operators": [_describe(proto, opsets, *item) for item in sorted(_count(proto).items())],
        **_load(path, proto, feeds),
    }


def _count(proto: ModelProto) -> Counter[tuple[str, str, str]]:
    """Count the nodes of each domain and operator, including nested nodes."""
    nodes = [*_walk(proto.graph), *(n for f in proto.functions for n in _walk(f))]
    keys = [("" if n.domain == "ai.onnx" else n.domain, n.op_type, n.overload) for n in nodes]
    return Counter(keys)


def _walk(graph: GraphProto | Any) -> Iterator[NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _walk(inner)


def _describe(
    proto: ModelProto, opsets: Mapping[str, int], key: tuple[str, str, str], count: int
) -> Plain:
    """Describe which package translates an operator to opwright, or why no package does."""
    domain, op_type, overload = key
    name = f"{domain}::{op_type}" if domain else op_type
    row: Plain = {"operator": name, "nodes": count, "by": "", "missing": ""}
    schema = find_schema(op_type, domain, opsets.get(domain, 1))
    if any((f.domain, f.name, f.overload) == (domain, op_type, overload) for f in proto.functions):
        row["by"] = "a function of the model"
    elif domain.startswith(PREFIX):
        try:
            row["by"] = ow.current_context().ops.package_of(find_own(domain, op_type)).label
        except OpwrightError as reason:
            row["missing"] = " ".join(str(reason).split())
    elif (label := _find_package(name)) is not None:
        row["by"] = label
    elif schema is None:
        row["missing"] = (
            "no installed package has a row for it: an annex of the topic onnx adds one"
        )
    elif schema.has_function or schema.has_context_dependent_function:
        row["by"] = "its function body in ONNX"
    else:
        row["missing"] = "opwright has no counterpart"
    return row


def _find_package(name: str) -> str | None:
    entries = ow.current_context().annexes.entries(TOPIC)
    found = [entry.package.label for entry in entries if name in entry.load()]
    return found[-1] if found else None


def _load(path: Path, proto: ModelProto, feeds: Shapes) -> Plain:
    """Return feeds, results and parameters of a loaded model, and the cost of a run."""
    shapes = {
        entry.name: [1 if size is None else size for size in read_dims(entry.type.tensor_type)]
        for entry in proto.graph.input
    }
    try:
        loaded = load(path)
        found: Plain = {
            "error": "",
            "feeds": [_show(spec, loaded) for spec in loaded.feeds],
            "results": [_show(spec, loaded) for spec in loaded.fetches],
        }
        report = loaded.report()
        found["own_operators"] = dict(sorted(report.operators.items()))
        found["parameters"] = len(report.parameters)
        found["parameter_bytes"] = sum(report.parameters.values())
        names = [spec.name for spec in loaded.feeds]
        given = {name: list(feeds.get(name, shapes[name])) for name in names}
        return {**found, **_plan(load(path, shapes=given), given)}
    except ValueNeededError as reason:
        needed = f"{reason}; opwright run MODEL --input NAME=FILE.npy gives it"
        return {"error": needed}
    except OpwrightError as reason:
        return {"error": str(reason)}


def _show(spec: Any, loaded: ow.LoadedProgram) -> str:
    """Describe a feed or result, using the model's names for dynamic sizes."""
    names = loaded.notes["onnx"]["dims"].get(spec.name)
    if not spec.shape or names is None or len(names) != len(spec.shape):
        return str(spec)
    dims = (name if dim is None else dim for dim, name in zip(spec.shape, names))
    return str(spec._replace(shape=tuple(dims)))


def _plan(loaded: ow.LoadedProgram, shapes: Shapes) -> Plain:
    """Plan a run without executing it; return its kernels, operation count and memory."""
    part = loaded.program.clone(for_inference=True).prune([s.name for s in loaded.fetches])
    network = ow.Network(part.global_block())
    feeds = make_feeds("onnx", loaded, [])
    compiled = network.compile(
        list(feeds), [spec.name for spec in loaded.fetches], scope=loaded.scope
    )
    memory_bytes = compiled.plan_for(feeds).lowered.plan.arena_bytes
    entry = ow.current_context().annexes.find("flops", "count")
    counts = [entry.load()(op) if entry else None for op in part.global_block().ops]
    return {
        "for": {name: list(shape) for name, shape in shapes.items()},
        "flops": None if None in counts else sum(counts),
        "memory_bytes": memory_bytes,
        "kernels": [kernel._asdict() for kernel in network.lock().kernels],
        "libraries": dict(sorted(network.placement().kernels.items())),
    }


def format_report(report: Plain) -> Iterable[str]:
    """Return the lines of a report."""
    opsets = ", ".join(f"{domain or 'ai.onnx'} {n}" for domain, n in report["opsets"].items())
    yield f"{report['model']}: opsets {opsets}; written by {report['producer'] or 'no name'}"
    rows = [("operator", "nodes", "written by")]
    for row in report["operators"]:
        how = f"MISSING: {row['missing']}" if row["missing"] else row["by"]
        rows.append((row["operator"], str(row["nodes"]), how))
    yield from align(rows)
    if report["error"]:
        yield f"it does not load: {report['error']}"
        return
    yield f"feeds       {', '.join(report['feeds']) or 'none'}"
    yield f"results     {', '.join(report['results'])}"
    n_ops = sum(report["own_operators"].values())
    yield f"operators   {n_ops} of opwright's, {len(report['own_operators'])} types"
    yield f"parameters  {report['parameters']} of {report['parameter_bytes']:,} bytes"
    shapes = (f"{n}={'x'.join(map(str, s)) or '()'}" for n, s in report["for"].items())
    flops = "unknown" if report["flops"] is None else f"{report['flops']:,}"
    yield f"for         {' '.join(shapes) or 'no feeds'}"
    yield f"FLOPs       {flops}"
    yield f"memory      {report['memory_bytes']:,} bytes besides parameters"
    counts = (f"{count} {name}" for name, count in report["libraries"].items())
    yield f"kernels     {', '.join(counts) or 'none'}"
    keys = ("operator", "device", "dtype", "library", "package")
    yield from align([tuple(str(kernel[key]) for key in keys) for kernel in report["kernels"]])
