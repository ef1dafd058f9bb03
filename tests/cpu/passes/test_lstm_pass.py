"""The pass ``train_lstm`` replaces only supported LSTM layers and does not change results."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from thread_counts import thread_counts

import opwright as ow

PARAMETERS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


class Layers:
    """A program with an LSTM, a loss of all outputs, and the gradients of all inputs."""

    def __init__(
        self,
        steps: int = 7,
        rows: int = 5,
        inputs: int = 6,
        size: int = 4,
        layers: int = 2,
        *,
        given: tuple[str, ...] = (),
        read: tuple[str, ...] = ("out", "h_n", "c_n"),
        dtype: str = "float32",
        **attrs: bool,
    ) -> None:
        self.block = ow.Program().global_block()
        self.feeds = _feeds(steps, rows, inputs, size, layers * (1 + attrs.get("bidirectional", 0)))
        if attrs.get("batch_first"):
            self.feeds["x"] = np.swapaxes(self.feeds["x"], 0, 1).copy()
        kept = [name for name in self.feeds if name[:2] not in ("h0", "c0", "le") or name in given]
        self.feeds = {
            name: self.feeds[name] if name == "lengths" else self.feeds[name].astype(dtype)
            for name in kept
        }
        for name, array in self.feeds.items():
            self.block.create_var(name, array.shape, str(array.dtype), is_data=True)
        slots = {name: [name] for name in ("x", *given)}
        slots |= {slot: [n for n in self.feeds if n.startswith(slot)] for slot in PARAMETERS}
        outputs = {slot: slot for slot in (*read, "gates")}
        self.block.append_op("lstm", slots, outputs, attrs)
        self.fetch: list[Any] = list(read)
        self.fetch += self.append_gradients(read, "loss")

    def append_gradients(self, read: tuple[str, ...], loss: str) -> list[Any]:
        """Return the gradients of the sum of the squared outputs."""
        for slot in read:
            self.block.append_op("square", {"x": slot}, {"out": f"{loss}_{slot}_squared"})
            self.block.append_op(
                "sum", {"x": f"{loss}_{slot}_squared"}, {"out": f"{loss}_{slot}_sum"}
            )
        self.block.append_op("add_n", {"x": [f"{loss}_{slot}_sum" for slot in read]}, {"out": loss})
        wanted = [name for name in self.feeds if name != "lengths"]
        return [g for _, g in ow.append_backward(self.block.var(loss), parameters=wanted)]

    def run(self, passes: list[str], *fetch: str) -> tuple[list[np.ndarray], Counter[str]]:
        network = ow.Network(self.block)
        call = network.compile(
            feed=list(self.feeds), fetch=[*self.fetch, *fetch], scope=ow.Scope(), passes=passes
        )
        results = call(**self.feeds)
        again = call(**self.feeds)
        for first, second in zip(results, again, strict=True):
            np.testing.assert_array_equal(first, second)
        return results, Counter(network.placement().types)


def _feeds(steps: int, rows: int, inputs: int, size: int, layers: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(steps * rows)
    feeds: dict[str, np.ndarray] = {"x": rng.normal(0, 0.5, (steps, rows, inputs))}
    for i in range(layers):
        feeds[f"weight_ih_{i}"] = rng.normal(0, 0.5, (4 * size, size if i else inputs))
        feeds[f"weight_hh_{i}"] = rng.normal(0, 0.5, (4 * size, size))
        feeds[f"bias_ih_{i}"] = rng.normal(0, 0.5, 4 * size)
        feeds[f"bias_hh_{i}"] = rng.normal(0, 0.5, 4 * size)
    for name in ("h0", "c0"):
        feeds[name] = rng.normal(0, 0.5, (layers, rows, size))
    feeds["lengths"] = rng.permutation(np.arange(rows) % (steps + 1))
    return feeds


def assert_same(made: Layers, *fetch: str) -> Counter[str]:
    found, types = made.run(["train_lstm"], *fetch)
    plain, _ = made.run([], *fetch)
    for got, wanted in zip(found, plain, strict=True):
        scale = float(np.abs(wanted).max(initial=0))
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6 * scale)
    return types


def is_replaced(types: Counter[str]) -> bool:
    assert types["lstm"] == types["lstm_grad"] == 1 - types["cpu.lstm_train"]
    assert types["cpu.lstm_train"] == types["cpu.lstm_train_grad"]
    return types["cpu.lstm_train"] == 1


n_threads = thread_counts(1, 2, 3)


# Sizes with one segment for all steps, several segments (the first shorter), or one per step.
SIZES = [(7, 5), (1, 3), (7, 200), (9, 256), (3, 600)]


@pytest.mark.parametrize(("steps", "rows"), SIZES)
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("given", [(), ("lengths",), ("h0", "c0"), ("h0", "c0", "lengths")])
def test_gradients_are_the_same_with_and_without_the_pass(steps, rows, batch_first, given):
    made = Layers(steps, rows, given=given, batch_first=batch_first)
    assert is_replaced(assert_same(made))


@pytest.mark.parametrize(("inputs", "size"), [(3, 40), (40, 3), (16, 64)])
@pytest.mark.parametrize("layers", [1, 3])
def test_rows_are_divided_among_threads_for_layers_of_any_width(n_threads, inputs, size, layers):
    made = Layers(8, 130, inputs, size, layers, given=("h0", "c0"))
    assert is_replaced(assert_same(made))


@pytest.mark.parametrize("read", [("out",), ("h_n",), ("c_n",), ("out", "c_n")])
def test_any_subset_of_the_outputs_can_have_a_gradient(read):
    assert is_replaced(assert_same(Layers(6, 150, read=read)))


def test_an_lstm_in_float64_is_replaced():
    assert is_replaced(assert_same(Layers(6, 150, dtype="float64")))


@pytest.mark.parametrize(
    ("case", "fetch"),
    [
        ({"bidirectional": True, "inputs": 4, "layers": 1}, ()),
        ({"dtype": "float16"}, ()),
        ({"steps": 0}, ()),
        ({}, ("gates",)),
    ],
    ids=["two directions", "float16", "no steps", "fetched gates"],
)
def test_layers_refused_by_the_kernels_are_not_replaced(case, fetch):
    assert not is_replaced(assert_same(Layers(**case), *fetch))


def test_an_lstm_with_two_gradients_is_not_replaced():
    made = Layers()
    made.fetch += made.append_gradients(("out",), "second")
    types = assert_same(made)
    assert (types["lstm"], types["lstm_grad"], types["cpu.lstm_train"]) == (1, 2, 0)


def test_a_pinned_library_keeps_its_kernels():
    with ow.context_guard(ow.current_context().with_pins({"lstm_grad": "numpy"})):
        assert not is_replaced(assert_same(Layers()))


@pytest.mark.parametrize("wrong", [-1, 8])
def test_lengths_out_of_range_are_refused(wrong):
    made = Layers(given=("lengths",))
    made.feeds["lengths"][2] = wrong
    with pytest.raises(ow.errors.OpwrightError, match=rf"lengths must be in \[0, 7\], got {wrong}"):
        made.run(["train_lstm"])
