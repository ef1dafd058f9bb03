"""Plans with gradients need little memory in addition to the saved values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import opwright as ow
import opwright.lowering as lowering


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, int]]:
    """The graph and the arena size in bytes of each plan, in lowering order."""
    found: list[tuple[Any, int]] = []
    plan_memory = lowering.plan_memory

    def noting(graph: Any, device: Any) -> Any:
        slots = plan_memory(graph, device)
        found.append((graph, sum(slots.get(None, ()))))
        return slots

    monkeypatch.setattr(lowering, "plan_memory", noting)
    return found


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Run plans in one thread, since some workspaces are larger for more threads."""
    ow.set_num_threads(1)


@pytest.mark.parametrize(("passes", "kept"), [([], 4 + 1 + 1), (["train_lstm"], 4)])
def test_the_backward_pass_of_an_lstm_needs_little_more_memory_than_the_saved_values(
    plans: list[tuple[Any, int]], passes: list[str], kept: int
) -> None:
    """The saved values are the gates and, without the pass, the states and cells."""
    steps, rows, size, count = 64, 32, 64, 2
    block = ow.Program().global_block()
    shapes = {"weight_ih": (4 * size, size), "weight_hh": (4 * size, size)}
    feeds = {"x": np.ones((steps, rows, size), "float32")}
    names: dict[str, list[str]] = {"x": ["x"]}
    for slot, shape in shapes.items():
        names[slot] = [f"{slot}_{i}" for i in range(count)]
        feeds |= {name: np.zeros(shape, "float32") for name in names[slot]}
    for name, array in feeds.items():
        block.create_var(name, array.shape, "float32", is_data=True)
    block.append_op("lstm", names, {"out": "out"})
    block.append_op("square", {"x": "out"}, {"out": "squares"})
    block.append_op("mean", {"x": "squares"}, {"out": "loss"})
    pairs = ow.append_backward(block.var("loss"), parameters=[*names["weight_ih"], "weight_hh_0"])
    fetch = [gradient.name for _, gradient in pairs]
    ow.Network(block).compile(feed=list(feeds), fetch=fetch, passes=passes)(**feeds)
    kept_bytes = kept * count * steps * rows * size * 4
    assert kept_bytes < plans[-1][1] < 1.35 * kept_bytes


def test_the_gradient_of_gelu_reuses_the_memory_of_its_input(
    plans: list[tuple[Any, int]],
) -> None:
    rows, size, hidden = 2048, 16, 256
    feeds = {"x": np.ones((rows, size), "float32"), "wide": np.ones((size, hidden), "float32")}
    feeds["narrow"] = np.ones((hidden, size), "float32")
    block = ow.Program().global_block()
    for name, array in feeds.items():
        block.create_var(name, array.shape, "float32", is_data=True)
    block.append_op("fc", {"x": "x", "weight": "wide"}, {"out": "hidden"})
    block.append_op("gelu", {"x": "hidden"}, {"out": "activated"})
    block.append_op("fc", {"x": "activated", "weight": "narrow"}, {"out": "out"})
    block.append_op("sum", {"x": "out"}, {"out": "loss"})
    pairs = ow.append_backward(block.var("loss"), parameters=["wide", "narrow"])
    ow.Network(block).compile(feed=list(feeds), fetch=[g.name for _, g in pairs])(**feeds)
    assert "cpu.gelu_fc_grad" in [op.type for op in plans[-1][0].ops]
    kept = rows * hidden * 4
    assert kept < plans[-1][1] < 1.6 * kept


def test_the_gradient_of_a_large_weight_needs_memory_for_only_one_copy(
    plans: list[tuple[Any, int]],
) -> None:
    feeds = {
        "x": np.ones((2, 256, 7, 7), "float32"),
        "weight": np.ones((256, 256, 3, 3), "float32"),
    }
    block = ow.Program().global_block()
    for name, array in feeds.items():
        block.create_var(name, array.shape, "float32", is_data=True)
    block.append_op(
        "conv2d", {"x": "x", "weight": "weight"}, {"out": "out"}, {"paddings": [1, 1, 1, 1]}
    )
    block.append_op("sum", {"x": "out"}, {"out": "loss"})
    pairs = ow.append_backward(block.var("loss"), parameters=["x", "weight"])
    ow.Network(block).compile(feed=list(feeds), fetch=[g.name for _, g in pairs])(**feeds)
    (gradient,) = [op for op in plans[-1][0].ops if op.type == "conv2d_grad"]
    size = gradient.workspace.size
    assert size < 1.9 * feeds["weight"].nbytes  # sums reuse the memory of the converted weight
