"""Control flow: cond as If, while_loop as Loop, scan as Scan or Loop."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import opwright as ow
from opwright_onnx.errors import DeclinedError
from opwright_onnx.translate.table import Rows
from opwright_onnx.writing.writer import Op, Writer

ROWS = Rows()


def _block(w: Writer, op: Op, attr: str) -> ow.Block:
    block: ow.Block = w.program.blocks[op.attrs[attr]]
    return block


def _names(op: Op, attr: str) -> list[str]:
    return list(op.attrs.get(attr) or ())


def _all(w: Writer, names: Sequence[str]) -> list[str]:
    return [w.get(name) for name in names]


def _scalar(w: Writer, name: str) -> str:
    return str(w.node("Reshape", name, w.ints([]), dtype="bool"))


def _entries(w: Writer, block: ow.Block, names: Sequence[str]) -> list[Any]:
    return [(name, str(block.var(name).dtype), block.var(name)) for name in names]


@ROWS.row("cond")
def cond(w: Writer, op: Op) -> Any:
    graphs = {}
    for kind, branch in (("true", "then_branch"), ("false", "else_branch")):
        names = _names(op, f"{kind}_outputs")
        block = _block(w, op, f"{kind}_block")
        graphs[branch] = w.graph(block, [], partial(_all, w, names), branch)
    count = len(op.outputs["out"])
    found = w.node("If", _scalar(w, w.input(op, "condition")), outputs=count, **graphs)
    return [_typed(w, op, "out", found)]


def _typed(w: Writer, op: Op, slot: str, names: Sequence[str]) -> list[str]:
    """Cast outputs to the output dtypes of the operator."""
    for name, variable in zip(names, op.outputs.get(slot, ())):
        w.dtypes[name] = str(w.var(variable).dtype)
    return list(names)


@ROWS.row("while_loop")
def while_loop(w: Writer, op: Op) -> Any:
    block = _block(w, op, "body")
    if any(w.wants(op, slot) for slot in ("steps", "kept")):
        raise DeclinedError("ONNX's Loop does not return the number of iterations")
    if op.attrs.get("max_steps") is not None and op.outputs.get("stacked"):
        raise DeclinedError("ONNX's Loop stacks only the iterations that ran")
    carried = _entries(w, block, _names(op, "body_init"))

    def leave() -> list[str]:
        following = _scalar(w, w.get(str(op.attrs["body_condition"])))
        return [following, *_all(w, _names(op, "body_out") + _names(op, "body_stacked"))]

    inputs = [(None, "int64", None), (None, "bool", None), *carried]
    body = w.graph(block, inputs, leave, "body")
    start = _scalar(w, w.input(op, "condition"))
    count = len(carried) + len(_names(op, "body_stacked"))
    found = w.node("Loop", "", start, *w.inputs(op, "init"), outputs=count, body=body)
    return [
        _typed(w, op, "out", found[: len(carried)]),
        _typed(w, op, "stacked", found[len(carried) :]),
    ]


@ROWS.row("scan")
def scan(w: Writer, op: Op) -> Any:
    block = _block(w, op, "body")
    if w.wants(op, "kept") or op.inputs.get("turns") or op.attrs.get("segment"):
        raise DeclinedError("ONNX's Scan takes every element, one at a time")
    carried = _entries(w, block, _names(op, "body_init"))
    elements = _entries(w, block, _names(op, "body_xs"))
    names = _names(op, "body_final") + _names(op, "body_out")
    count, n_out = len(names), len(_names(op, "body_out"))
    if elements:
        body = w.graph(block, [*carried, *elements], partial(_all, w, names), "body")
        turned = int(op.attrs["reverse"])
        found = w.node(
            "Scan",
            *w.inputs(op, "init"),
            *w.inputs(op, "xs"),
            outputs=count,
            body=body,
            num_scan_inputs=len(elements),
            scan_input_directions=[turned] * len(elements),
            scan_output_directions=[turned] * n_out or None,
        )
    else:
        if op.attrs["reverse"] and n_out:
            raise DeclinedError("ONNX's Loop appends each iteration at the end")
        true = w.const(True)
        inputs = [(None, "int64", None), (None, "bool", None), *carried]
        body = w.graph(block, inputs, lambda: [true, *_all(w, names)], "body")
        turns = w.const(op.attrs["length"], "int64")
        found = w.node("Loop", turns, true, *w.inputs(op, "init"), outputs=count, body=body)
    final = len(carried)
    return [_typed(w, op, "final", found[:final]), _typed(w, op, "out", found[final:])]
