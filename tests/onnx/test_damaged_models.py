"""Damaged and hostile models raise an opwright error after little work."""

from __future__ import annotations

import importlib
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from small_models import make_model, make_perceptron, node, tensor

import opwright_onnx
from every_case import EVERY
from opwright.errors import OpwrightError
from opwright_onnx import ModelError

FUZZ = Path(__file__).parents[1] / "fuzz"
ROUNDS = 2000 if EVERY else 200


def test_damaged_model_bytes_raise_only_opwright_errors() -> None:
    data = make_perceptron()[0].SerializeToString()
    rng = np.random.default_rng(5)
    refused = 0
    for _ in range(ROUNDS):
        damaged = bytearray(data)
        for place in rng.integers(0, len(data), rng.integers(1, 6)):
            damaged[place] = rng.integers(0, 256)
        if rng.random() < 0.2:
            del damaged[rng.integers(0, len(damaged)) :]
        try:
            opwright_onnx.load(bytes(damaged))
        except OpwrightError:
            refused += 1
    assert refused > ROUNDS // 10


def test_the_number_of_nodes_written_by_nested_functions_is_limited() -> None:
    functions = []
    for depth in range(40):
        name = f"F{depth + 1}"
        inner = "Neg" if depth == 39 else name
        domain = "" if depth == 39 else "acme"
        nodes = [
            node(inner, ["a"], ["b"], domain=domain),
            node(inner, ["b"], ["c"], domain=domain),
        ]
        imports = [helper.make_opsetid("", 21), helper.make_opsetid("acme", 1)]
        functions.append(helper.make_function("acme", f"F{depth}", ["a"], ["c"], nodes, imports))
    nodes = [node("F0", ["x"], ["y"], domain="acme")]
    model = make_model(
        nodes, [tensor("x", [1])], [tensor("y", [1])], domains={"acme": 1}, functions=functions
    )
    with pytest.raises(ModelError, match="must have at most 10000 nodes"):
        opwright_onnx.load(model)


def test_a_function_that_calls_itself_is_refused() -> None:
    body = [node("F", ["a"], ["b"], domain="acme")]
    function = helper.make_function(
        "acme", "F", ["a"], ["b"], body, [helper.make_opsetid("acme", 1)]
    )
    nodes = [node("F", ["x"], ["y"], domain="acme")]
    model = make_model(
        nodes, [tensor("x", [1])], [tensor("y", [1])], domains={"acme": 1}, functions=[function]
    )
    with pytest.raises(ModelError, match="nested at most 64 deep"):
        opwright_onnx.load(model)


def test_a_loop_with_many_iterations_is_not_unrolled() -> None:
    body = helper.make_graph(
        [node("Concat", ["state", "state"], ["next"], axis=0)],
        "body",
        [
            tensor("turn", [], TensorProto.INT64),
            tensor("again", [], TensorProto.BOOL),
            tensor("state", None),
        ],
        [tensor("again", [], TensorProto.BOOL), tensor("next", None)],
    )
    weights = {"most": np.array(2**40, np.int64), "x": np.ones(2, np.float32)}
    loop = node("Loop", ["most", "", "x"], ["y"], body=body)
    with pytest.raises(
        ModelError, match=r"node 'next' \(Concat\): concat: output 'out' must have dimensions"
    ):
        opwright_onnx.load(make_model([loop], [], [tensor("y", None)], weights))


@pytest.mark.parametrize(
    "nodes",
    [
        [node("ConstantOfShape", ["huge"], ["y"])],
        [node("Expand", ["one", "huge"], ["y"])],
        [node("Tile", ["one", "huge"], ["y"])],
    ],
    ids=lambda nodes: nodes[0].op_type,
)
def test_a_huge_constant_is_not_computed_when_a_model_is_loaded(nodes: list[object]) -> None:
    weights = {"huge": np.array([2**40], np.int64), "one": np.ones(1, np.float32)}
    loaded = opwright_onnx.load(make_model(nodes, [], [tensor("y", None)], weights))  # type: ignore[arg-type]
    assert loaded.program.global_block().ops


@pytest.mark.parametrize(
    ("weight", "rule"),
    [
        (TensorProto(name="w", data_type=1, dims=[2**40], raw_data=b"1234"), "must have .* bytes"),
        (
            TensorProto(name="w", data_type=1, dims=[-1], raw_data=b"1234"),
            "dims must be at least 0",
        ),
        (
            TensorProto(name="w", data_type=99, dims=[1], raw_data=b"1234"),
            "dtype that opwright supports",
        ),
        (TensorProto(name="w", data_type=1, dims=[3], float_data=[1.0]), "must have 3 elements"),
    ],
)
def test_a_tensor_with_contradictory_fields_is_refused(weight: TensorProto, rule: str) -> None:
    nodes = [node("Add", ["x", "w"], ["y"])]
    model = make_model(nodes, [tensor("x", [1])], [tensor("y", [1])], {"w": weight})
    with pytest.raises(ModelError, match=rule):
        opwright_onnx.load(model)


def test_an_opset_that_does_not_exist_is_refused() -> None:
    model = make_model([node("Neg", ["x"], ["y"])], [tensor("x", [1])], [tensor("y", [1])])
    for version in (0, 2**40):
        model.opset_import[0].version = version
        with pytest.raises(ModelError, match="the opset of 'ai.onnx' must be in"):
            opwright_onnx.load(model)


KEPT = sorted((FUZZ / "corpus" / "onnx_files").glob("*.json"))


@pytest.fixture
def fuzzer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """The fuzzing target for ONNX files, and the reader of its stored cases."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.syspath_prepend(str(FUZZ))
    before = set(sys.modules)
    yield importlib.import_module("targets.onnx_files"), importlib.import_module("recorded")
    for name in set(sys.modules) - before:  # other tests have modules with the same names
        if str(FUZZ) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def test_damaged_models_of_every_operator_raise_only_opwright_errors(fuzzer: Any) -> None:
    target, _ = fuzzer
    rng = random.Random(7)
    for _ in range(ROUNDS):
        target.run(target.draw(rng))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_stored_case_raises_only_opwright_errors(fuzzer: Any, path: Path) -> None:
    target, recorded = fuzzer
    target.run(recorded.read_case(path)[2])
