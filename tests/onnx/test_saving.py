"""`opwright_onnx.save` writes files for other runtimes, and `load` can read all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from small_models import make_perceptron, run_perceptron

import opwright as ow
import opwright_onnx
from opwright.errors import AttributeValueError, FileMissingError, OpwrightError
from opwright_onnx import UnsupportedError

onnxruntime: Any = pytest.importorskip("onnxruntime", reason="it is not installed")

FEW = np.random.default_rng(1).standard_normal((5, 4)).astype(np.float32)
SQUARE = np.array([[4, 2], [2, 3]], np.float32)


def make_program() -> tuple[ow.Program, ow.Scope, ow.Variable]:
    """Return a program of a layer, a loss and its gradient, with its scope and the layer output."""
    program, scope = ow.Program(), ow.Scope()
    block = program.global_block()
    block.create_var("x", [None, 4], is_data=True)
    block.create_parameter("w", [4, 2], "float32")
    scope.var("w").set(np.arange(8, dtype=np.float32).reshape(4, 2))
    block.append_op("matmul", {"x": "x", "y": "w"}, {"out": "hidden"})
    block.append_op("dropout", {"x": "hidden"}, {"out": "kept"}, {"training": True})
    block.append_op("softmax", {"x": "kept"}, {"out": "prob"})
    block.append_op("mean", {"x": "prob"}, {"out": "loss"})
    ow.append_backward(block.var("loss"))
    return program, scope, block.var("prob")


def make_unary(op_type: str, shape: list[int | None], **attrs: Any) -> ow.Program:
    program = ow.Program()
    block = program.global_block()
    block.create_var("x", shape, is_data=True)
    block.append_op(op_type, {"x": "x"}, {"out": "y"}, attrs)
    return program


def run(path: Path, feeds: dict[str, Any]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def test_a_program_is_written_for_prediction_and_keeps_its_names(tmp_path: Path) -> None:
    program, scope, prob = make_program()
    path = tmp_path / "mine.onnx"
    report = opwright_onnx.save(path, program, scope, [prob], metadata={"license": "none"})
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in model.graph.node] == ["MatMul", "Softmax"]
    assert [tensor.name for tensor in model.graph.initializer] == ["w"]
    assert [entry.name for entry in model.graph.output] == ["prob"]
    (entry,) = model.graph.input
    sizes = [dim.dim_param or dim.dim_value for dim in entry.type.tensor_type.shape.dim]
    assert (entry.name, sizes) == ("x", ["x_0", 4])
    assert {prop.key: prop.value for prop in model.metadata_props} == {"license": "none"}
    assert report == (21, {}, (path,))
    expected = opwright_onnx.load(path)(FEW)[0]
    np.testing.assert_allclose(run(path, {"x": FEW})[0], expected, 1e-5)


def test_a_loaded_model_keeps_its_dimensions_and_properties(tmp_path: Path) -> None:
    model, _ = make_perceptron()
    onnx.helper.set_model_props(model, {"author": "someone"})
    loaded = opwright_onnx.load(model)
    opwright_onnx.save(tmp_path / "again.onnx", loaded)
    again = opwright_onnx.load(tmp_path / "again.onnx")
    assert again.notes["onnx"]["dims"] == {
        "input.1": ["batch", 4],
        "scores": ["batch", 3],
    }
    assert again.notes["onnx"]["metadata"] == {"author": "someone"}
    np.testing.assert_array_equal(again(FEW)["scores"], loaded(FEW)["scores"])
    feeds = {"input.1": FEW}
    np.testing.assert_allclose(run(tmp_path / "again.onnx", feeds)[0], loaded(FEW)[0], 1e-5, 1e-6)


def test_an_operator_without_a_counterpart_is_a_node_of_our_domain(tmp_path: Path) -> None:
    program = make_unary("cholesky", [2, 2])
    path = tmp_path / "own.onnx"
    report = opwright_onnx.save(path, program, ow.Scope(), "y")
    assert list(report.own_nodes) == ["cholesky"]
    (node,) = onnx.load(path).graph.node
    assert (node.domain, node.op_type) == ("opwright.std", "cholesky")
    (found,) = opwright_onnx.load(path)(SQUARE)
    np.testing.assert_array_equal(found, ow.ops.cholesky(SQUARE))


def test_the_option_only_onnx_refuses_operators_without_a_counterpart(tmp_path: Path) -> None:
    path = tmp_path / "own.onnx"
    with pytest.raises(UnsupportedError, match="only_onnx, got cholesky"):
        opwright_onnx.save(path, make_unary("cholesky", [2, 2]), ow.Scope(), "y", only_onnx=True)
    assert not path.exists()


def test_attributes_not_representable_in_float32_are_preserved_by_a_round_trip(
    tmp_path: Path,
) -> None:
    program = make_unary("polygamma", [2, 2], n=1)
    block = program.global_block()
    block.append_op("clip_by_norm", {"x": "y"}, {"out": "z"}, {"max_norm": 0.1})
    opwright_onnx.save(tmp_path / "own.onnx", program, ow.Scope(), "z")
    ops = opwright_onnx.load(tmp_path / "own.onnx").program.global_block().ops
    assert [op.attrs for op in ops] == [op.attrs for op in block.ops]


def test_a_composite_is_written_as_its_body(tmp_path: Path) -> None:
    x = np.array([[0.5, -2.5, 40.0]], np.float32)
    path = tmp_path / "body.onnx"
    report = opwright_onnx.save(path, make_unary("sinc", [None, 3]), ow.Scope(), "y")
    assert not report.own_nodes
    np.testing.assert_allclose(run(path, {"x": x})[0], ow.ops.sinc(x), 1e-4, 1e-6)


def test_tensors_are_stored_next_to_the_model_on_request(tmp_path: Path) -> None:
    program = ow.Program()
    scope, block = ow.Scope(), program.global_block()
    block.create_var("x", [None, 64], is_data=True)
    for name in ("a", "b"):
        block.create_parameter(name, [64, 64], "float32")
        scope.var(name).set(np.random.default_rng(2).random((64, 64), np.float32))
    block.append_op("matmul", {"x": "x", "y": "a"}, {"out": "h"})
    block.append_op("matmul", {"x": "h", "y": "b"}, {"out": "y"})
    path = tmp_path / "large.onnx"
    report = opwright_onnx.save(path, program, scope, "y", external_data=True)
    assert report.files == (path, tmp_path / "large.onnx.data")
    assert path.stat().st_size < 2000
    assert sorted(tmp_path.iterdir()) == sorted(report.files)
    onnx.checker.check_model(path, full_check=True)
    x = np.ones((2, 64), np.float32)
    (found,) = opwright_onnx.load(path)(x)
    np.testing.assert_allclose(run(path, {"x": x})[0], found, 1e-4)


def test_a_while_loop_is_written_as_a_loop(tmp_path: Path) -> None:
    program = ow.Program()
    block = program.global_block()
    block.create_var("n", [1], is_data=True)
    block.append_op("greater", {"x": "n", "y": "n"}, {"out": "never"})
    block.append_op("logical_not", {"x": "never"}, {"out": "first"})
    body = program.add_block(0)
    body.create_var("v", [1])
    body.append_op("scale", {"x": "v"}, {"out": "half"}, {"scale": 0.5})
    body.append_op("fill_like", {"x": "v"}, {"out": "one"}, {"value": 1.0})
    body.append_op("greater", {"x": "half", "y": "one"}, {"out": "more"})
    names = {"body_init": ["v"], "body_out": ["half"], "body_condition": "more"}
    block.append_op(
        "while_loop",
        {"condition": "first", "init": ["n"]},
        {"out": ["last"], "stacked": ["turns"]},
        {"body": body, **names, "body_stacked": ["half"]},
    )
    path = tmp_path / "loop.onnx"
    opwright_onnx.save(path, program, ow.Scope(), ["last", "turns"])
    onnx.checker.check_model(path, full_check=True)
    last, turns = run(path, {"n": np.array([6], np.float32)})
    np.testing.assert_array_equal(last, [0.75])
    np.testing.assert_array_equal(turns, [[3], [1.5], [0.75]])


def test_an_unsupported_target_opset_is_refused(tmp_path: Path) -> None:
    program, scope, prob = make_program()
    with pytest.raises(AttributeValueError, match=r"opset must be in \[18, \d+\], got 9"):
        opwright_onnx.save(tmp_path / "old.onnx", program, scope, prob, opset=9)


def test_save_without_fetches_is_refused(tmp_path: Path) -> None:
    program, scope, _ = make_program()
    with pytest.raises(AttributeValueError, match="fetch must name at least one result"):
        opwright_onnx.save(tmp_path / "none.onnx", program, scope)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"opst": 21}, "save: unknown argument, got 'opst'; did you mean 'opset'"),
        ({"opset": "x"}, r"save: opset must be in \[18, \d+\], got 'x'"),
        ({"metadata": [1]}, r"save: metadata must be a dict of str to str, got \[1\]"),
        ({"external_data": "maybe"}, "external_data must be True, False or None, got 'maybe'"),
    ],
)
def test_the_error_names_a_wrong_argument(tmp_path: Path, given: dict[str, Any], text: str) -> None:
    program, scope, prob = make_program()
    with pytest.raises(OpwrightError, match=text):
        opwright_onnx.save(tmp_path / "model.onnx", program, scope, [prob], **given)
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_the_file_must_exist(tmp_path: Path) -> None:
    program, scope, prob = make_program()
    with pytest.raises(FileMissingError, match="save: the folder of the file must exist"):
        opwright_onnx.save(tmp_path / "none" / "model.onnx", program, scope, [prob])
    with pytest.raises(AttributeValueError, match="save: path must have .*, got 'a.x00b'"):
        opwright_onnx.save("a\0b", program, scope, [prob])


def test_a_trained_model_is_written_with_its_parameters(tmp_path: Path) -> None:
    model, weights = make_perceptron()
    helper.set_model_props(model, {"author": "me"})
    loaded = opwright_onnx.load(model, trainable=True)
    block = loaded.program.global_block()
    loss = block.append_op("sum", {"x": "scores"}, {"out": "loss"}).output("out")[0]
    gradients = {p.name: g for p, g in ow.append_backward(block.var(loss))}
    block.append_op("fill", {}, {"out": "rate"}, {"shape": [1], "value": 0.5})
    for name, gradient in gradients.items():
        slots = {"param": name, "grad": gradient, "learning_rate": "rate"}
        block.append_op("sgd", slots, {"param_out": name})
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    ow.Network(block).compile(["input.1"], [loss], scope=loaded.scope)(x)
    opwright_onnx.save(tmp_path / "m.onnx", loaded, metadata={"steps": "1"})
    written = onnx.load(tmp_path / "m.onnx")
    assert {n.op_type for n in written.graph.node} == {"MatMul", "Add", "Relu"}
    again = opwright_onnx.load(tmp_path / "m.onnx", trainable=True)
    assert again.notes["onnx"]["metadata"] == {"author": "me", "steps": "1"}
    moved = {name: again.scope.var(name).numpy() for name in weights}
    assert all((moved[name] != weights[name]).any() for name in weights)
    np.testing.assert_array_equal(again(x)[0], loaded(x)[0])
    np.testing.assert_allclose(again(x)[0], run_perceptron(moved, x), rtol=1e-5, atol=1e-6)


def test_tensors_too_large_for_a_message_are_stored_next_to_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opwright_onnx.saving.MAX_MESSAGE_BYTES", 100)
    monkeypatch.setattr("opwright_onnx.saving.MIN_EXTERNAL_BYTES", 64)
    model, weights = make_perceptron()
    path = tmp_path / "m.onnx"
    report = opwright_onnx.save(path, opwright_onnx.load(model))
    assert report.files == (path, tmp_path / "m.onnx.data")
    tensors = onnx.load(path, load_external_data=False).graph.initializer
    placed = {tensor.name: tensor.data_location for tensor in tensors}
    assert placed == {"w1": TensorProto.EXTERNAL, "b1": 0, "w2": TensorProto.EXTERNAL}
    onnx.checker.check_model(path, full_check=True)
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_allclose(
        opwright_onnx.load(path)(x)[0], run_perceptron(weights, x), rtol=1e-5, atol=1e-6
    )
