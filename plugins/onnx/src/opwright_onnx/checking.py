"""Checks rows for ``opwright check`` by round trips and against ONNX's reference evaluator."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

import opwright as ow
from opwright.errors import OpwrightError
from opwright_onnx.dtypes import array_dtype
from opwright_onnx.opening import load
from opwright_onnx.saving import make_tensor, write_model
from opwright_onnx.translate.schemas import find_schema
from opwright_onnx.translate.table import find_row
from opwright_onnx.translate.values import FLOATS

MAX_SAMPLES: Final = 8
"""The maximum number of samples per operator."""

_TOLERANCE: Final = {"float64": 1e-9, "float32": 1e-4}
_COARSE: Final = 3e-2
"""Relative and absolute tolerances of results, since the order of summation may differ."""

Draw = Callable[[str], Iterable[Any]]
"""Returns samples of an operator type: arrays by slot in ``inputs``, and ``attrs``."""


def check_rows(rows: Mapping[str, Any], draw: Draw) -> Iterator[str]:
    """Check data rows against the OpProto, the ONNX schema and samples; yield faults."""
    for key, row in rows.items():
        if not callable(row):
            yield from _check_data(key, row, draw)


def check_writers(rows: Mapping[str, Any], draw: Draw) -> Iterator[str]:
    """Yield faults in functions that write opwright operators as ONNX nodes."""
    for op_type in rows:
        yield from _try(op_type, None, draw)


def check_operator(op_type: str, uses: Iterable[Any]) -> Generator[tuple[Any, str], None, str]:
    """Yield each operator use that fails a round trip through ONNX, together with its fault.

    This is the rule ``onnx`` of ``opwright check``. An operator without a counterpart is written as
    a node of an opwright domain, or as a function.

    Returns
    -------
    str
        Why no use could be checked; empty if at least one was checked.
    """
    reason = "no samples were drawn"
    for use in uses:
        made = _make(use.sample)
        if made is None:
            reason = reason and "all its outputs are state that it overwrites"
            continue
        program, fed = made
        try:
            ours = [np.asarray(result) for result in program(fed)]
            _, model = _write(program)
        except OpwrightError as error:  # values that a file cannot store
            reason = reason and str(error).splitlines()[0]
            continue
        reason = ""
        fault = _find_fault(model, fed, ours)
        if fault is not None:
            yield use, fault
    return reason


def _write(program: ow.LoadedProgram) -> tuple[Any, Any]:
    """Write a program; return the writer, and the model including its arrays."""
    writer, model = write_model(program, onnx.defs.onnx_opset_version())
    model.graph.initializer.extend(make_tensor(*pair) for pair in writer.arrays.items())
    return writer, model


def _check_data(key: str, row: Any, draw: Draw) -> Iterator[str]:
    since, op_type, names = row
    domain, _, name = key.rpartition("::")
    try:
        proto = ow.op_proto(op_type)
    except OpwrightError as reason:
        yield f"{key}: its operator must exist, got {reason}"
        return
    if find_row(domain, name) is not row:
        yield f"{key}: only one row may have this name, got another row in an annex that sorts last"
    known = [attr.name for attr in proto.attrs]
    schema = find_schema(name, domain, since)
    theirs = None if schema is None else list(schema.attributes)
    for their, our in names.items():
        if our not in known:
            yield f"{key}: {op_type} must have the attribute, got {our!r}; it has {known}"
        if theirs is not None and their not in theirs:
            yield f"{key}: ONNX must have the attribute, got {their!r}; it has {theirs}"
    yield from _try(op_type, key, draw)


def _try(op_type: str, key: str | None, draw: Draw) -> Iterator[str]:
    """Write samples as models; yield the first fault of a reloaded or evaluated model."""
    for sample in islice(draw(op_type), MAX_SAMPLES):
        made = _make(sample)
        if made is None:
            continue
        program, fed = made
        try:
            ours = [np.asarray(result) for result in program(fed)]
            writer, model = _write(program)
        except OpwrightError:
            continue  # the sample is refused, or another rule reports the fault
        written = {f"{n.domain}::{n.op_type}" if n.domain else n.op_type for n in model.graph.node}
        if writer.own or (key is not None and key not in written):
            continue  # the row cannot express these attributes
        fault = _find_fault(model, fed, ours)
        if fault is not None:
            attrs = {k: v for k, v in sample.attrs.items() if v is not None}
            yield f"{key or op_type}: {fault}, with {attrs} of {program.feeds}"
            return


def _make(sample: Any) -> tuple[ow.LoadedProgram, dict[str, Any]] | None:
    """Return a program of one operator and its feeds, or None if it has no results."""
    program, fed, named = ow.Program(), {}, {}
    block = program.global_block()
    for slot, arrays in sample.inputs.items():
        named[slot] = [f"{slot}_{i}" for i in range(len(arrays))]
        for name, array in zip(named[slot], arrays):
            block.create_var(name, array.shape, array_dtype(array), is_data=True)
            fed[name] = array
    op = block.append_op(sample.op_type, named, None, dict(sample.attrs))
    slots = [s for s in op.definition.proto.outputs if not s.intermediate and not s.aliases]
    fetches = [name for slot in slots for name in op.outputs.get(slot.name, ())]
    if not fetches:
        return None
    return ow.LoadedProgram(program, ow.Scope(), fetches, list(fed)), fed


def _find_fault(model: Any, fed: Mapping[str, Any], ours: list[Any]) -> str | None:
    """Describe how the results of the reloaded model or of the evaluator differ, or return None."""
    try:
        program = load(model)
        again = program({spec.name: fed[spec.name] for spec in program.feeds})
    except OpwrightError as reason:
        return f"a written model must load, got {reason}"
    if not _is_close(ours, again):
        return "a model must compute the same after it is written and loaded, got different numbers"
    if not all(map(_is_known, model.graph.node)):
        return None
    try:
        with np.errstate(all="ignore"):
            theirs = ReferenceEvaluator(model).run(None, dict(fed))
    except Exception:  # noqa: BLE001 - the reference lacks a kernel for the node, or is faulty
        return None
    if not _is_close(ours, theirs):
        return "ONNX's reference evaluator must compute the same, got different numbers"
    return None


def _is_known(node: Any) -> bool:
    """Return whether the evaluator is correct for a node; the evaluator ignores RNN lengths."""
    has_lengths = node.op_type in ("LSTM", "GRU", "RNN") and "".join(node.input[4:5]) != ""
    schema = find_schema(node.op_type, node.domain, onnx.defs.onnx_opset_version())
    return schema is not None and not has_lengths


def _is_close(ours: Iterable[Any], others: Iterable[Any]) -> bool:
    for mine, other in zip(ours, map(np.asarray, others), strict=True):
        if mine.shape != other.shape or mine.dtype != other.dtype:
            return False
        dtype = array_dtype(mine)
        near = _TOLERANCE.get(dtype, _COARSE) if dtype in FLOATS else 0.0
        left, right = mine.astype(np.float64), other.astype(np.float64)
        if not np.allclose(left, right, rtol=near, atol=near, equal_nan=True):
            return False
    return True
