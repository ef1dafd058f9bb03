"""Layers and their gradients match PyTorch's modules with the same weights."""

from __future__ import annotations

import pickle
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import PYTHON
from layer_cases import CASES, Arrays, LayerCase

import opwright as ow
from opwright_nn import layers

SERVER = Path(__file__).parent / "server" / "modules.py"


def draw(inputs: Mapping[str, Any]) -> Arrays:
    rng = np.random.default_rng(3)
    return {
        name: rng.normal(size=given) if isinstance(given, tuple) else given
        for name, given in inputs.items()
    }


def run_ours(case: LayerCase, feeds: Arrays) -> tuple[list[Any], list[Any], Arrays, Arrays]:
    """Return outputs, input gradients, parameters and parameter gradients."""
    with ow.program_guard(ow.Program(), ow.Program()) as (main, startup):
        given = {n: layers.data(n, [None, *a.shape[1:]], a.dtype) for n, a in feeds.items()}
        if case.name == "attention by a mask":
            given["mask"].shape = feeds["mask"].shape
        result = case.append(**given)
        outputs = list(result) if isinstance(result, tuple) else [result]
        weighted = []
        for i, out in enumerate(outputs):
            weight = layers.data(f"weight_{i}", out.shape, "float64")
            weighted.append(ow.ops.sum(out * weight))
        loss = ow.ops.add_n(weighted)
        floats = [n for n, a in feeds.items() if a.dtype.kind == "f" and n != "label"]
        parameters = [p.name for p in main.parameters()]
        pairs = ow.append_backward(loss, parameters=[*floats, *parameters])
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    rng = np.random.default_rng(4)
    for name in parameters:
        variable = scope.var(name)
        variable.set(variable.numpy() + 0.3 * rng.normal(size=variable.numpy().shape))
    values = {name: scope.var(name).numpy() for name in parameters}
    network = ow.Network(main.global_block())
    forward = main.clone(for_inference=True).prune(outputs)
    shapes = [
        out.shape
        for out in ow.Network(forward.global_block()).compile([*feeds], outputs, scope=scope)(
            **feeds
        )
    ]
    weights = {
        f"weight_{i}": np.cos(np.arange(int(np.prod(s)), dtype=float)).reshape(s)
        for i, s in enumerate(shapes)
    }
    fetch = [*outputs, *(gradient for _, gradient in pairs)]
    results = network.compile([*feeds, *weights], fetch, scope=scope)(**feeds, **weights)
    n = len(outputs)
    grads = dict(zip([v.name for v, _ in pairs], results[n:], strict=True))
    return (
        results[:n],
        [grads[name] for name in floats],
        values,
        {name: grads[name] for name in parameters},
    )


@pytest.fixture(scope="module")
def torch_modules() -> Iterator[Callable[[Any], Any]]:
    """Return a function that computes a PyTorch module in a separate process."""
    assert PYTHON is not None
    command = [PYTHON, str(SERVER)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    to, back = process.stdin, process.stdout
    assert to is not None
    assert back is not None

    def ask(request: Any) -> Any:
        pickle.dump(request, to)
        to.flush()
        return pickle.load(back)

    yield ask
    to.close()
    back.close()
    process.wait(timeout=600)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_layer_matches_the_pytorch_module(case: LayerCase, torch_modules: Any) -> None:
    feeds = draw(case.inputs)
    outputs, input_grads, values, gradients = run_ours(case, feeds)
    request = {
        "module": case.module,
        "state": case.state(values),
        "inputs": list(feeds.values()),
        "call": case.call,
    }
    expected = torch_modules(request)
    for got, want in zip(outputs, expected["outputs"], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)
    for got, want in zip(input_grads, expected["gradients"], strict=False):
        np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-8)
    mapped = case.state(gradients)
    assert mapped.keys() >= expected["state"].keys()
    for name, want in expected["state"].items():
        np.testing.assert_allclose(mapped[name], want, rtol=1e-8, atol=1e-8, err_msg=name)
