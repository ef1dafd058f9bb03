"""All gradients of a small layer are computed in one launch and match NumPy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import opwright as ow
from opwright.op import dtype_to_numpy
from opwright_cuda.compile.nvrtc import Nvrtc
from opwright_cuda.products import LayerGrads, find_layer_refusal, layer, small
from opwright_cuda.products.layer import choose_layer_tiles
from opwright_cuda.products.small import TILES, Tile
from opwright_cuda.source import own_source

pytestmark = [pytest.mark.cuda_kernels, pytest.mark.grid(3)]

GRADS = "cuda.layer_grads"
H200 = 132
FORWARD = {"relu": lambda x: np.maximum(x, 0), "sigmoid": lambda x: 1 / (1 + np.exp(-x))}
FORWARD["tanh"] = np.tanh
DERIVATIVE = {
    "relu": lambda out: out > 0,
    "sigmoid": lambda out: out * (1 - out),
    "tanh": lambda out: 1 - out * out,
}


@pytest.fixture(autouse=True)
def context() -> Iterator[None]:
    """Start without cached plans, which may have different tiles."""
    with ow.context_guard(ow.Context.discover()):
        yield


class TwoLayers:
    """Two layers, activation(x @ first) @ second + bias, and their gradients."""

    def __init__(
        self,
        rows: int,
        inputs: int,
        outputs: int,
        activation: str = "sigmoid",
        dtype: str = "float32",
        has_bias: bool = True,
    ) -> None:
        self.block = ow.Program().global_block()
        self.feeds: dict[str, Any] = {}
        self.activation, self.has_bias = activation, has_bias
        rng = np.random.default_rng(3)
        shapes = {"x": (rows, 3), "first": (3, inputs), "second": (inputs, outputs)}
        for name, shape in (shapes | {"bias": (outputs,), "out_grad": (rows, outputs)}).items():
            array = rng.standard_normal(shape).astype(dtype_to_numpy(dtype))
            self.feeds[name] = array
            self.block.create_var(name, shape, dtype, stop_gradient=False)
        self.hidden = self._put("matmul", x="x", y="first")
        if activation:
            self.hidden = self._put(activation, x=self.hidden)
        out = self._put("matmul", x=self.hidden, y="second")
        if has_bias:
            out = self._put("add", x=out, y="bias")
        loss = self._put("sum", x=self._put("multiply", x=out, y="out_grad"))
        self.parameters = ["first", "second", *(["bias"] if has_bias else [])]
        pairs = ow.append_backward(self.block.vars[loss], parameters=self.parameters)
        self.grads = {p if isinstance(p, str) else p.name: grad.name for p, grad in pairs}

    def _put(self, op: str, **slots: str) -> str:
        return self.block.append_op(op, slots).output("out")[0]

    def run(self, *fetch: str, **options: Any) -> tuple[list[Any], Counter[str]]:
        """Return the fetches, by default all gradients, and the number of operators by type."""
        passes = options.pop("passes", ["fuse_layer_grads"])
        wanted = list(fetch or (self.grads[name] for name in self.parameters))
        network = ow.Network(self.block)
        call = network.compile(list(self.feeds), wanted, device="cuda", passes=passes, **options)
        return call(**self.feeds), Counter(network.placement().types)

    def expected(self) -> list[Any]:
        """Return the gradients computed with NumPy in float64."""
        x, first, second, _, out_grad = (v.astype("f8") for v in self.feeds.values())
        hidden = FORWARD[self.activation](x @ first) if self.activation else x @ first
        grad = out_grad @ second.T
        if self.activation:
            grad = grad * DERIVATIVE[self.activation](hidden)
        bias = [out_grad.sum(axis=0)] if self.has_bias else []
        return [x.T @ grad, hidden.T @ out_grad, *bias]

    def assert_right(self, **options: Any) -> Counter[str]:
        """Check the gradients of a run with the pass; return operator type counts."""
        made, types = self.run(**options)
        for one, other in zip(made, self.expected(), strict=True):
            unit = float(np.finfo(one.dtype).eps)
            np.testing.assert_allclose(one, other, rtol=64 * unit, atol=256 * unit)
        return types


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("activation", ["", "relu", "sigmoid", "tanh"])
def test_gradients_of_a_layer_need_one_launch(activation: str, dtype: str) -> None:
    for has_bias in (True, False):
        types = TwoLayers(9, 21, 6, activation, dtype, has_bias).assert_right()
        assert types[GRADS] == 1
        assert types["matmul"] == 2  # the first layer and its weight gradient
        assert types["sum_like"] == types[f"{activation}_grad"] == 0


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize(
    ("rows", "inputs", "outputs"),
    [(1, 1, 1), (64, 16, 32), (64, 15, 33), (3, 40, 10), (130, 7, 9), (5, 17, 70)],
)
def test_gradients_are_correct_for_any_sizes_and_tiles(
    rows: int, inputs: int, outputs: int, tile: Tile, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (small, layer):
        monkeypatch.setattr(module, "choose_tile", lambda *sizes, **how: tile)
    assert TwoLayers(rows, inputs, outputs).assert_right()[GRADS] == 1


def test_gradients_of_an_empty_batch_are_zeros() -> None:
    assert TwoLayers(0, 5, 7).assert_right()[GRADS] == 1


def test_gradients_of_layers_without_inputs_or_outputs_are_correct() -> None:
    assert TwoLayers(4, 0, 7).assert_right()[GRADS] == 0
    assert TwoLayers(4, 5, 0).assert_right()[GRADS] == 1


def test_without_an_input_gradient_only_weight_and_bias_gradients_are_computed() -> None:
    made = TwoLayers(9, 21, 6)
    (weight, bias), types = made.run(made.grads["second"], made.grads["bias"])
    _, expected, expected_bias = made.expected()
    np.testing.assert_allclose(weight, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(bias, expected_bias, rtol=1e-5, atol=1e-5)
    assert types[GRADS] == 1
    assert types["sigmoid_grad"] == 0


def test_infinities_affect_only_their_columns() -> None:
    made = TwoLayers(9, 21, 6)
    made.feeds["out_grad"][4, 2] = np.inf
    (_, weight, bias), _ = made.run()
    assert np.isfinite(weight).all(axis=0).tolist() == [column != 2 for column in range(6)]
    assert np.isfinite(bias).tolist() == [column != 2 for column in range(6)]


def test_a_fetched_gradient_of_the_activation_output_is_kept() -> None:
    made = TwoLayers(9, 21, 6)
    derivative = next(op for op in made.block.ops if op.type == "sigmoid_grad")
    (grad,), types = made.run(*derivative.input("out_grad"))
    out_grad, second = made.feeds["out_grad"], made.feeds["second"]
    np.testing.assert_allclose(grad, out_grad @ second.T, rtol=1e-5, atol=1e-5)
    both = [*derivative.input("out_grad"), *made.grads.values()]
    (grad, *_), types = made.run(*both)
    np.testing.assert_allclose(grad, out_grad @ second.T, rtol=1e-5, atol=1e-5)
    assert (types[GRADS], types["sigmoid_grad"]) == (1, 1)


def test_two_runs_are_bitwise_identical() -> None:
    made = TwoLayers(64, 33, 20)
    for one, other in zip(made.run()[0], made.run()[0], strict=True):
        np.testing.assert_array_equal(one, other)


def test_unsupported_layers_keep_separate_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    assert TwoLayers(9, 21, 6, dtype="float16").run()[1][GRADS] == 0
    assert TwoLayers(9, 21, 6).run(options={"cuda.allow_tf32": True})[1][GRADS] == 0
    pinned = ow.current_context().with_pins({"matmul": "cublaslt"})
    with ow.context_guard(pinned):
        assert TwoLayers(9, 21, 6).run()[1][GRADS] == 0
    monkeypatch.setattr(small, "WORK", 1)  # per multiprocessor
    with ow.context_guard(ow.Context.discover()):
        assert TwoLayers(9, 21, 6).run()[1][GRADS] == 0


def test_layer_gradients_are_limited_to_small_products() -> None:
    assert find_layer_refusal(LayerGrads(64, 784, 200, "float32", True), H200) is None
    assert "got 160563200" in str(
        find_layer_refusal(LayerGrads(1024, 784, 200, "float32", True), H200)
    )


def test_the_choice_of_weight_tiles_accounts_for_the_blocks_of_the_input_gradient() -> None:
    layers = {n: LayerGrads(64, 200, n, "float32", True) for n in (200, 10)}
    assert choose_layer_tiles(layers[200], H200) == (Tile(2, 4), Tile(4, 8))
    assert choose_layer_tiles(layers[10], H200) == (Tile(2, 4), Tile(2, 4))
    long = layers[10]._replace(rows=1024)  # the sums of its weight gradient are long
    assert choose_layer_tiles(long, H200) == (Tile(4, 8), Tile(1, 2))


@pytest.mark.parametrize("ctype", ["float", "double"])
def test_nvrtc_compiles_gradients_of_layers(ctype: str) -> None:
    width = 16 // (4 if ctype == "float" else 8)
    tiles = "SmallTile<2, 4, 8>, SmallTile<4, 8, 8>"
    epilogues = [
        f"BiasedActivation<{ctype}, Identity>",
        *(f"SavedDerivative<{ctype}, {name}Grad>" for name in ("Relu", "Sigmoid", "Tanh")),
    ]
    expressions = [f"weight_grads<{ctype}, SmallTile<4, 8, 8>, {width}, 1, true>"]
    expressions += [f"layer_grads<{ctype}, {tiles}, {width}, 1, true, {e}>" for e in epilogues]
    image = Nvrtc().compile(own_source("layer_grads.cu"), expressions, "sm_90")
    assert len(set(image.names)) == len(expressions)
