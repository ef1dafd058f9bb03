"""Loops, branches and their gradients match the same computation in PyTorch without blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from case import Array
from one_operator import compiled
from peer import Peer, Request

import opwright as ow

STEPS, BATCH, SIZE, HIDDEN = 7, 3, 4, 5
X, H0 = (BATCH, SIZE), (BATCH, HIDDEN)


def draw(shapes: Mapping[str, tuple[int, ...]], dtype: str, scale: float = 0.5) -> dict[str, Array]:
    rng = np.random.default_rng(3)
    return {name: (rng.normal(size=s) * scale).astype(dtype) for name, s in shapes.items()}


def begin(feeds: Mapping[str, Array]) -> Any:
    """Return the block of a new program with variables for the feeds."""
    block = ow.Program().global_block()
    for name, array in feeds.items():
        block.create_var(name, array.shape, array.dtype.name, stop_gradient=False)
    return block


def agree(
    block: Any, feeds: Mapping[str, Array], outputs: Sequence[str], twin: Any, peer: Peer
) -> None:
    """Compare outputs, and gradients of the sum of their squares, with a PyTorch program."""
    fetch = list(outputs)
    squares = []
    for name in outputs:
        square = block.append_op("square", {"x": name}).output("out")[0]
        squares.append(block.append_op("sum", {"x": square}).output("out")[0])
    loss = block.append_op("add_n", {"x": squares}).output("out")[0]
    wanted = [name for name, array in feeds.items() if array.dtype.kind == "f"]
    pairs = ow.append_backward([block.var(loss)], parameters=wanted)
    fetch += [gradient.name for _, gradient in pairs]
    computed = compiled(block, dict(feeds), fetch)(**feeds)

    request = Request(feed={n: a.astype(np.float64) for n, a in feeds.items()})
    for op in twin.ops:
        request.append(op)
    request.fetch = list(outputs)
    request.wanted = wanted
    expected, _ = peer.ask("torch", Request(**{**vars(request), "wanted": []}))
    request.weights = {name: 2 * expected[name] for name in outputs}
    _, gradients = peer.ask("torch", request)
    dtype = next(iter(feeds.values())).dtype
    wide = 1e-5 if dtype == np.float32 else 1e-12
    for name, got in zip(outputs, computed, strict=False):
        np.testing.assert_allclose(got, expected[name], rtol=wide, atol=wide, err_msg=name)
    for (variable, _), got in zip(pairs, computed[len(outputs) :], strict=True):
        np.testing.assert_allclose(
            got, gradients[variable.name], rtol=50 * wide, atol=50 * wide, err_msg=variable.name
        )


def scan(block: Any, states: Mapping[str, str], body: Any, ends: Sequence[str]) -> None:
    """Append a scan over ``x`` that carries ``states`` and stacks the first of ``ends``."""
    finals = [f"last_{name}" for name in states]
    block.append_op(
        "scan",
        {"init": list(states.values()), "xs": "x"},
        {"final": finals, "out": ["out"]},
        {
            "body": body,
            "body_init": list(states),
            "body_xs": ["x_t"],
            "body_final": list(ends),
            "body_out": [ends[0]],
        },
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_a_scan_matches_a_recurrent_network(activation: str, dtype: str, peer: Peer) -> None:
    shapes = {"x": (STEPS, *X), "h0": H0, "w": (HIDDEN, SIZE), "u": (HIDDEN, HIDDEN)}
    feeds = draw({**shapes, "b": (HIDDEN,)}, dtype)
    block = begin(feeds)
    body = block.program.create_block()
    body.create_var("h", H0, dtype)
    body.create_var("x_t", X, dtype)
    parts = [("x_t", "w"), ("h", "u")]
    for x, weight in parts:
        body.append_op(
            "matmul", {"x": x, "y": weight}, {"out": f"{x}_{weight}"}, {"transpose_y": True}
        )
    body.append_op("add_n", {"x": ["x_t_w", "h_u"]}, {"out": "added"})
    body.append_op("add", {"x": "added", "y": "b"}, {"out": "moved"})
    body.append_op(activation, {"x": "moved"}, {"out": "next"})
    block.program.rollback()
    scan(block, {"h": "h0"}, body, ["next"])

    twin = begin(feeds)
    twin.append_op("unsqueeze", {"x": "h0"}, {"out": "first"}, {"axis": [0]})
    weights = {"weight_ih": ["w"], "weight_hh": ["u"], "bias_ih": ["b"], "h0": "first"}
    twin.append_op(
        "rnn",
        {"x": "x", **weights},
        {"out": "out", "h_n": "end"},
        {"activation": activation, "batch_first": False},
    )
    twin.append_op("squeeze", {"x": "end"}, {"out": "last_h"}, {"axis": [0]})
    agree(block, feeds, ["out", "last_h"], twin, peer)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_scan_of_cells_matches_a_complete_lstm(dtype: str, peer: Peer) -> None:
    shapes = {"x": (STEPS, *X), "h0": H0, "c0": H0, "w": (4 * HIDDEN, SIZE)}
    feeds = draw({**shapes, "u": (4 * HIDDEN, HIDDEN)}, dtype)
    block = begin(feeds)
    body = block.program.create_block()
    for name, shape in (("h", H0), ("c", H0), ("x_t", X)):
        body.create_var(name, shape, dtype)
    inputs = {"x": "x_t", "h": "h", "c": "c", "weight_ih": "w", "weight_hh": "u"}
    cell = body.append_op("lstm_cell", inputs)
    slots = [slot.name for slot in ow.op_proto("lstm_cell").outputs][:2]
    ends = [cell.output(slot)[0] for slot in slots]
    block.program.rollback()
    scan(block, {"h": "h0", "c": "c0"}, body, ends)

    twin = begin(feeds)
    for state in ("h", "c"):
        twin.append_op("unsqueeze", {"x": f"{state}0"}, {"out": f"{state}_1"}, {"axis": [0]})
    weights = {"weight_ih": ["w"], "weight_hh": ["u"], "h0": "h_1", "c0": "c_1"}
    twin.append_op(
        "lstm",
        {"x": "x", **weights},
        {"out": "out", "h_n": "end_h", "c_n": "end_c"},
        {"batch_first": False},
    )
    for state in ("h", "c"):
        twin.append_op("squeeze", {"x": f"end_{state}"}, {"out": f"last_{state}"}, {"axis": [0]})
    agree(block, feeds, ["out", "last_h", "last_c"], twin, peer)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("turns", [0, 1, 6])
def test_a_loop_runs_as_long_as_its_condition_holds(turns: int, dtype: str, peer: Peer) -> None:
    feeds = draw({"x": H0, "w": (HIDDEN, HIDDEN)}, dtype)
    block = begin(feeds)
    counter = {"shape": [1], "value": 0.0, "dtype": "float32"}
    block.append_op("fill", {}, {"out": "zero"}, counter)
    block.append_op("fill", {}, {"out": "limit"}, {**counter, "value": float(turns)})
    block.append_op("less", {"x": "zero", "y": "limit"}, {"out": "begins"})
    body = block.program.create_block()
    body.create_var("v", H0, dtype)
    body.create_var("count", [1], "float32")
    body.append_op("matmul", {"x": "v", "y": "w"}, {"out": "product"})
    body.append_op("tanh", {"x": "product"}, {"out": "after"})
    body.append_op("scale", {"x": "count"}, {"out": "counted"}, {"bias": 1.0})
    body.append_op("less", {"x": "counted", "y": "limit"}, {"out": "again"})
    block.program.rollback()
    names = {"body_init": ["v", "count"], "body_out": ["after", "counted"]}
    block.append_op(
        "while_loop",
        {"condition": "begins", "init": ["x", "zero"]},
        {"out": ["end", "n"]},
        {"body": body, "body_condition": "again", "max_steps": 10, **names},
    )
    block.append_op("scale", {"x": "end"}, {"out": "out"})

    twin = begin(feeds)
    value = "x"
    for turn in range(turns):
        twin.append_op("matmul", {"x": value, "y": "w"}, {"out": f"product_{turn}"})
        twin.append_op("tanh", {"x": f"product_{turn}"}, {"out": f"after_{turn}"})
        value = f"after_{turn}"
    twin.append_op("scale", {"x": value}, {"out": "out"})
    agree(block, feeds, ["out"], twin, peer)


@pytest.mark.parametrize("chosen", [True, False])
def test_only_the_chosen_branch_runs(chosen: bool, peer: Peer) -> None:
    feeds = draw({"x": H0, "w": (HIDDEN,)}, "float64")
    block, twin = begin(feeds), begin(feeds)
    block.append_op(
        "fill", {}, {"out": "p"}, {"shape": [1], "value": float(chosen), "dtype": "bool"}
    )
    attrs: dict[str, Any] = {}
    for kind, op in (("true", "multiply"), ("false", "atan2")):
        attrs[f"{kind}_block"] = block.program.create_block()
        attrs[f"{kind}_block"].append_op(op, {"x": "x", "y": "w"}, {"out": kind})
        block.program.rollback()
        attrs[f"{kind}_outputs"] = [kind]
    block.append_op("cond", {"condition": "p"}, {"out": ["out"]}, attrs)
    twin.append_op("multiply" if chosen else "atan2", {"x": "x", "y": "w"}, {"out": "out"})
    agree(block, feeds, ["out"], twin, peer)
