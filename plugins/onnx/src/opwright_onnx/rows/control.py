"""Rows of the operators with subgraphs: If, Loop and Scan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

import opwright as ow
from opwright.errors import OpwrightError
from opwright_onnx.dtypes import dtype_name, numpy_dtype
from opwright_onnx.errors import ModelError, UnsupportedError
from opwright_onnx.messages import AttributeType, GraphProto
from opwright_onnx.translate.node import Node
from opwright_onnx.translate.table import Rows
from opwright_onnx.translate.tensors import read_tensor
from opwright_onnx.translate.translator import Translator
from opwright_onnx.translate.values import Value
from opwright_onnx.translate.walking import Walk, walks

ROWS = Rows()

Turn = Callable[[list[Value]], list[Value]]
"""Writes one iteration of a loop: its next carried values and its outputs."""


@ROWS.row("If")
@walks
def branch(walk: Walk, n: Node, condition: Value) -> Any:
    t = walk.translator
    graphs = n.attr("then_branch"), n.attr("else_branch")
    known = t.array(condition)
    if known is not None:
        return tuple(walk.graph(graphs[0 if bool(known.reshape(-1)[0]) else 1], {}))
    if any(map(_has_open_shapes, graphs)):
        return _select(walk, condition, graphs)
    blocks, outputs = [], []
    try:
        for graph in graphs:
            with _block(t) as block:
                found = [_leave(t, value) for value in walk.graph(graph, {})]
            blocks.append(block)
            outputs.append([variable.name for variable in found])
        names = [t.program.unique_name("branch") for _ in outputs[0]]
        t.block.append_op(
            "cond",
            {"condition": condition},
            {"out": names},
            {
                "true_block": blocks[0],
                "false_block": blocks[1],
                "true_outputs": outputs[0],
                "false_outputs": outputs[1],
            },
        )
    except OpwrightError as reason:
        t.need(condition, f"cond ({reason})")
        raise
    return tuple(map(t.block.var, names))


_OPEN_SHAPES: Final = {"Compress", "NonMaxSuppression", "NonZero", "Unique"}
"""The operators whose number of results depends on the values that they read."""


def _has_open_shapes(graph: GraphProto) -> bool:
    nodes = list(graph.node)
    inner = [a.g for n in nodes for a in n.attribute if a.type == AttributeType.GRAPH]
    return any(n.op_type in _OPEN_SHAPES for n in nodes) or any(map(_has_open_shapes, inner))


def _select(walk: Walk, condition: Value, graphs: tuple[GraphProto, GraphProto]) -> Any:
    """Compute both branches, since no plan of a branch may have sizes that depend on values.

    Each result is the concatenation of the results of both branches, one of them cut to length 0.
    """
    t = walk.translator
    chosen = t.cast(t.reshape(condition, [1]), "int64")
    shares = chosen, t.op("subtract", np.array([1]), chosen)
    was_guarded, t.guards_empty = t.guards_empty, True
    try:
        branches = [walk.graph(graph, {}) for graph in graphs]
    finally:
        t.guards_empty = was_guarded
    results = []
    for pair in zip(*branches, strict=True):
        if not all(t.rank(value) for value in pair):
            raise UnsupportedError(
                "results of a branch that counts elements must have at least one axis, got none"
            )
        parts = [
            t.slice(value, [0], [0], [t.op("multiply", share, t.dim(value, 0))])
            for value, share in zip(pair, shares)
        ]
        results.append(t.op("concat", parts, axis=0))
    return tuple(results)


@contextmanager
def _block(t: Translator) -> Iterator[ow.Block]:
    """Make a translator append to a new block temporarily."""
    outer = t.block
    t.block = t.program.add_block(outer.idx)
    try:
        yield t.block
    finally:
        t.block = outer


def _leave(t: Translator, value: Value) -> ow.Variable:
    """Return a result as a Variable of the current block; copy a Variable of an outer block."""
    variable = t.variable(value)
    if variable.name in t.block.vars:
        return variable
    return t._append("assign", {"x": variable}, {}, None)  # type: ignore[no-any-return]


@ROWS.row("Loop")
@walks
def loop(walk: Walk, n: Node, most: Value = None, condition: Value = None, *carried: Value) -> Any:
    t, body = walk.translator, n.attr("body")
    turns = None if most is None else t.array(most)
    first = np.array(True) if condition is None else t.array(condition)
    try:
        if any(isinstance(value, (list, tuple)) or value is None for value in carried):
            raise UnsupportedError("carried values of a loop must be tensors, got a sequence")
        with ow.transaction():
            if turns is not None and first is not None and first.all() and _goes_on(body):
                return _count(walk, body, int(turns.reshape(-1)[0]), carried)
            return _while(walk, body, most, condition, carried)
    except OpwrightError as reason:
        if turns is None and most is not None:
            t.need(most, f"M ({reason})")
        return _unroll(walk, body, turns, first, carried, reason)


def _unroll(
    walk: Walk, body: GraphProto, most: Any, condition: Any, carried: Sequence[Value], reason: Any
) -> Any:
    """Unroll the loop: append the body once per iteration; the trip count must be known."""
    t = walk.translator
    limit = None if most is None else int(most.reshape(-1)[0])
    again: Value = np.array(True) if condition is None else condition
    state, stacks = list(carried), [[] for _ in body.output[1 + len(carried) :]]  # type: ignore[var-annotated]
    turn = 0
    while limit is None or turn < limit:
        if not bool(t.need(again, f"the condition of a loop ({reason})").reshape(-1)[0]):
            break
        names = [entry.name for entry in body.input]
        given = dict(zip(names, [np.array(turn, np.int64), again, *state], strict=True))
        again, *results = walk.graph(body, given)
        state = results[: len(state)]
        for stack, value in zip(stacks, results[len(state) :], strict=True):
            stack.append(value)
        turn += 1
    outputs = [
        t.op("stack", stack) if stack else _no_turns(t, body, i, len(state))
        for i, stack in enumerate(stacks)
    ]
    return (*state, *outputs)


def _no_turns(t: Translator, body: GraphProto, index: int, n_carried: int) -> Value:
    tensor = body.output[1 + n_carried + index].type.tensor_type
    shape = [dim.dim_value for dim in tensor.shape.dim]
    return np.zeros([0, *shape], numpy_dtype(dtype_name(tensor.elem_type)))


def _while(
    walk: Walk, body: GraphProto, most: Value, condition: Value, carried: Sequence[Value]
) -> Any:
    t = walk.translator
    names = [entry.name for entry in body.input]
    limit = None if most is None else t.variable(t.reshape(t.cast(most, "int64"), []))
    start = t.variable(np.array(True) if condition is None else t.reshape(condition, []))
    init = [t.variable(np.array(0, np.int64)), start, *map(t.variable, carried)]
    first = start if limit is None else t.op("logical_and", start, t.op("less", init[0], limit))
    with _block(t) as block:
        entering = [
            block.create_var(t.program.unique_name("carried"), v.shape, v.dtype) for v in init
        ]
        again, *results = walk.graph(body, dict(zip(names, entering, strict=True)))
        turn = t.op("add", entering[0], 1)
        again = t.variable(t.reshape(again, []))
        if limit is not None:
            following = t.op("logical_and", again, t.op("less", turn, limit))
        else:
            following = again
        leaving = [_leave(t, v) for v in (turn, again, *results[: len(carried)])]
        stacked = [_leave(t, value) for value in results[len(carried) :]]
        following = _leave(t, following)
    _check_sizes(t, block)
    outputs = [t.program.unique_name("loop") for _ in init]
    stacks = [t.program.unique_name("stacked") for _ in stacked]
    t.block.append_op(
        "while_loop",
        {"condition": t.variable(first), "init": init},
        {"out": outputs, "stacked": stacks},
        {
            "body": block,
            "body_init": [v.name for v in entering],
            "body_out": [v.name for v in leaving],
            "body_condition": following.name,
            "body_stacked": [v.name for v in stacked],
        },
    )
    return tuple(map(t.block.var, [*outputs[2:], *stacks]))


@ROWS.row("Scan")
@walks
def scan(walk: Walk, n: Node, *inputs: Value) -> Any:
    t, body = walk.translator, n.attr("body")
    if n.opset < 9:
        return _scan_batches(walk, n, inputs)
    count = n.attr("num_scan_inputs")
    n_carried = len(inputs) - count
    if n_carried < 0 or len(body.input) != len(inputs):
        raise ModelError(f"its body must have {len(inputs)} inputs, got {len(body.input)}")
    axes = n.attr("scan_input_axes") or [0] * count
    turned = n.attr("scan_input_directions") or [0] * count
    xs = [
        _to_front(t, x, axis, bool(flip))
        for x, axis, flip in zip(inputs[n_carried:], axes, turned, strict=True)
    ]
    final, stacked = _scan(t, inputs[:n_carried], xs, None, _make_turn(walk, body))
    out_axes = n.attr("scan_output_axes") or [0] * len(stacked)
    out_turned = n.attr("scan_output_directions") or [0] * len(stacked)
    return (
        *final,
        *(
            _from_front(t, x, axis, bool(flip))
            for x, axis, flip in zip(stacked, out_axes, out_turned, strict=True)
        ),
    )


def _to_front(t: Translator, x: Value, axis: int, flip: bool) -> Value:
    rank = t.rank(x)
    axis = t.axis(axis, rank)
    moved = t.transpose(x, [axis, *(i for i in range(rank) if i != axis)])
    return t.op("flip", moved, axis=[0]) if flip else moved


def _from_front(t: Translator, x: Value, axis: int, flip: bool) -> Value:
    rank = t.rank(x)
    axis = t.axis(axis, rank)
    x = t.op("flip", x, axis=[0]) if flip else x
    return t.transpose(x, [*range(1, axis + 1), 0, *range(axis + 1, rank)])


def _make_turn(walk: Walk, body: GraphProto) -> Turn:
    names = [entry.name for entry in body.input]
    return lambda given: walk.graph(body, dict(zip(names, given, strict=True)))


def _goes_on(body: GraphProto) -> bool:
    """Return whether the body passes the condition through unchanged or sets it to true."""
    sources = {name: node for node in body.node for name in node.output}
    name = body.output[0].name
    while name in sources and sources[name].op_type == "Identity":
        name = sources[name].input[0]
    if name == body.input[1].name:
        return True
    constants = {tensor.name: tensor for tensor in body.initializer}
    if name in sources and sources[name].op_type == "Constant" and sources[name].attribute:
        constants[name] = sources[name].attribute[0].t
    return name in constants and bool(read_tensor(constants[name], None).all())


def _count(walk: Walk, body: GraphProto, turns: int, carried: Sequence[Value]) -> Any:
    """Append a loop with a known trip count as a scan, since scans have gradients."""
    t, turn = walk.translator, _make_turn(walk, body)

    def call(given: list[Value]) -> list[Value]:
        number, *state = given
        _, *results = turn([number, np.array(True), *state])
        return [t.op("add", number, 1), *results]

    final, stacked = _scan(t, [np.array(0, np.int64), *carried], [], max(turns, 0), call)
    return (*final[1:], *stacked)


def _scan(
    t: Translator, init: Sequence[Value], xs: Sequence[Value], length: int | None, call: Turn
) -> tuple[list[Value], list[Value]]:
    start, sequences = [*map(t.variable, init)], [*map(t.variable, xs)]
    with _block(t) as block:
        entering = [_enter(t, block, v.shape, v.dtype) for v in start]
        elements = [_enter(t, block, t.shape(v)[1:], v.dtype) for v in sequences]
        leaving = [_leave(t, v) for v in call([*entering, *elements])]
    _check_sizes(t, block)
    final = [t.program.unique_name("final") for _ in start]
    stacks = [t.program.unique_name("scanned") for _ in leaving[len(start) :]]
    t.block.append_op(
        "scan",
        {"init": start, "xs": sequences},
        {"final": final, "out": stacks},
        {
            "body": block,
            "body_init": [v.name for v in entering],
            "body_xs": [v.name for v in elements],
            "body_final": [v.name for v in leaving[: len(start)]],
            "body_out": [v.name for v in leaving[len(start) :]],
            **({} if length is None else {"length": length}),
        },
    )
    return [t.block.var(name) for name in final], [t.block.var(name) for name in stacks]


def _check_sizes(t: Translator, block: ow.Block) -> None:
    """Refuse a body with sizes that depend on run-time values, since a loop has a single plan."""
    for op in block.ops:
        for slot in op.definition.proto.operands:
            if t.reads_data(op.inputs.get(slot, ())):
                raise UnsupportedError(f"sizes in the body of a loop must be known, got {op!r}")


def _enter(t: Translator, block: ow.Block, shape: Any, dtype: str) -> ow.Variable:
    return block.create_var(t.program.unique_name("entering"), shape, dtype)


def _scan_batches(walk: Walk, n: Node, inputs: tuple[Value, ...]) -> Any:
    """Append an opset 8 Scan as one scan along axis 1 for each batch element."""
    t, body = walk.translator, n.attr("body")
    lengths, *given = inputs
    if lengths is not None:
        raise UnsupportedError("sequence_lens must be absent, got an input")
    count = n.attr("num_scan_inputs")
    n_carried = len(given) - count
    turned = n.attr("directions") or [0] * count
    rows: list[list[Value]] = []
    for i in range(t.known_dim(given[-1], 0, "input")):
        own = [t.op("squeeze", t.slice(v, [0], [i], [i + 1]), axis=[0]) for v in given]
        xs = [
            t.op("flip", x, axis=[0]) if flip else x
            for x, flip in zip(own[n_carried:], turned, strict=True)
        ]
        final, stacked = _scan(t, own[:n_carried], xs, None, _make_turn(walk, body))
        rows.append([*final, *stacked])
    return tuple(t.op("stack", list(column)) for column in zip(*rows))
