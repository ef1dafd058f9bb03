"""`opwright_onnx.load` returns a program that can be called, trained and saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, make_perceptron, node, run_perceptron, tensor

import opwright as ow
import opwright_onnx
from opwright.errors import (
    AttributeTypeError,
    AttributeValueError,
    FileMissingError,
    OpwrightError,
)
from opwright_onnx import ModelError, UnsupportedError, ValueNeededError

FEW = np.random.default_rng(1).standard_normal((5, 4)).astype(np.float32)


def test_a_model_is_called_by_position_and_by_names_that_are_not_identifiers() -> None:
    model, weights = make_perceptron()
    loaded = opwright_onnx.load(model)
    expected = run_perceptron(weights, FEW)
    np.testing.assert_allclose(loaded(FEW)[0], expected, rtol=1e-5, atol=1e-6)
    named = loaded({"input.1": FEW})["scores"]
    np.testing.assert_allclose(named, expected, rtol=1e-5, atol=1e-6)


def test_one_loaded_model_supports_every_batch_size() -> None:
    model, weights = make_perceptron()
    loaded = opwright_onnx.load(model)
    for count in (1, 3, 5):
        expected = run_perceptron(weights, FEW[:count])
        np.testing.assert_allclose(loaded(FEW[:count])[0], expected, rtol=1e-5, atol=1e-6)
    dims = {"input.1": ["batch", 4], "scores": ["batch", 3]}
    assert loaded.notes["onnx"]["dims"] == dims


def test_a_reshape_to_computed_sizes_keeps_the_batch_size_dynamic() -> None:
    nodes = [
        node("Shape", ["x"], ["sizes"], start=0, end=1),
        node("Concat", ["sizes", "rest"], ["target"], axis=0),
        node("Reshape", ["x", "target"], ["y"]),
    ]
    rest = {"rest": np.array([2, -1], np.int64)}
    loaded = opwright_onnx.load(
        make_model(nodes, [tensor("x", ["n", 4, 3])], [tensor("y", None)], rest)
    )
    for count in (1, 4):
        x = np.arange(count * 12, dtype=np.float32).reshape(count, 4, 3)
        np.testing.assert_array_equal(loaded(x)[0], x.reshape(count, 2, 6))


def test_initializers_are_parameters_if_the_model_is_trained() -> None:
    model, weights = make_perceptron()
    loaded = opwright_onnx.load(model, trainable=True)
    assert [p.name for p in loaded.program.parameters()] == ["w1", "b1", "w2"]
    block = loaded.program.global_block()
    loss = block.append_op("mean", {"x": "scores"}, {"out": "loss"})
    pairs = ow.append_backward(block.var(loss.output("out")[0]))
    wanted = [gradient for parameter, gradient in pairs if parameter.name == "w2"]
    step = ow.Network(block).compile(["input.1"], wanted, scope=loaded.scope)
    active = np.maximum(FEW @ weights["w1"] + weights["b1"], 0)
    expected = active.T @ np.full((5, 3), 1 / 15, np.float32)
    np.testing.assert_allclose(step(FEW)[0], expected, rtol=1e-5, atol=1e-6)


def test_initializers_are_not_parameters_without_training() -> None:
    model, _ = make_perceptron()
    assert not opwright_onnx.load(model).program.parameters()


def test_a_loaded_model_is_saved_and_loaded_as_a_program(tmp_path: Path) -> None:
    model, weights = make_perceptron()
    opwright_onnx.load(model).save(tmp_path / "saved")
    again = ow.load(tmp_path / "saved")
    np.testing.assert_allclose(again(FEW)[0], run_perceptron(weights, FEW), rtol=1e-5, atol=1e-6)
    assert again.notes["onnx"]["opsets"] == {"": 21}


def test_external_data_is_read_from_a_file_next_to_the_model(tmp_path: Path) -> None:
    model, weights = make_perceptron()
    path = tmp_path / "model.onnx"
    onnx.save_model(model, path, save_as_external_data=True, location="data", size_threshold=0)
    loaded = opwright_onnx.load(path)
    np.testing.assert_allclose(loaded(FEW)[0], run_perceptron(weights, FEW), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("location", ["../data", "/etc/passwd", "", "missing", "."])
def test_external_data_outside_the_folder_is_refused(tmp_path: Path, location: str) -> None:
    (tmp_path / "data").write_bytes(bytes(64))
    folder = tmp_path / "model"
    folder.mkdir()
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4])
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value=location)
    nodes = [node("Add", ["x", "w"], ["y"])]
    model = make_model(nodes, [tensor("x", [4])], [tensor("y", [4])], {"w": weight})
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(
        ModelError, match="tensor 'w': location must be a regular file in the folder"
    ):
        opwright_onnx.load(folder / "model.onnx")


def test_a_link_that_leads_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(bytes(16))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "data").symlink_to(tmp_path / "secret")
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4])
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="data")
    nodes = [node("Add", ["x", "w"], ["y"])]
    model = make_model(nodes, [tensor("x", [4])], [tensor("y", [4])], {"w": weight})
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match="must be a regular file in the folder of the model"):
        opwright_onnx.load(folder / "model.onnx")


def test_only_the_chosen_branch_runs() -> None:
    def graph(name: str, number: float) -> onnx.GraphProto:
        nodes = [node("Mul", ["x", f"{name}_by"], [f"{name}_y"])]
        by = numpy_helper.from_array(np.array(number, np.float32), f"{name}_by")
        return helper.make_graph(nodes, name, [], [tensor(f"{name}_y", ["n"])], [by])

    choose = node("If", ["c"], ["y"], then_branch=graph("a", 2), else_branch=graph("b", 3))
    inputs = [tensor("c", [], TensorProto.BOOL), tensor("x", ["n"])]
    loaded = opwright_onnx.load(make_model([choose], inputs, [tensor("y", ["n"])]))
    x = np.ones(3, np.float32)
    assert [op.type for op in loaded.program.global_block().ops] == ["cond"]
    for chosen, factor in ((True, 2), (False, 3)):
        np.testing.assert_array_equal(loaded(c=np.array(chosen), x=x)[0], factor * x)


def test_a_loop_with_a_computed_condition_is_a_while_loop() -> None:
    body = helper.make_graph(
        [
            node("Add", ["state", "state"], ["next"]),
            node("ReduceSum", ["next"], ["total"], keepdims=0),
            node("Less", ["total", "bound"], ["again"]),
            node("Identity", ["next"], ["seen"]),
        ],
        "body",
        [
            tensor("turn", [], TensorProto.INT64),
            tensor("before", [], TensorProto.BOOL),
            tensor("state", [2]),
        ],
        [tensor("again", [], TensorProto.BOOL), tensor("next", [2]), tensor("seen", [2])],
    )
    loop = node("Loop", ["most", "", "x"], ["y", "all"], body=body)
    inputs = [tensor("x", [2]), tensor("most", [], TensorProto.INT64), tensor("bound", [])]
    loaded = opwright_onnx.load(
        make_model([loop], inputs, [tensor("y", [2]), tensor("all", [None, 2])])
    )
    assert "while_loop" in [op.type for op in loaded.program.global_block().ops]
    for most, turns in ((10, 4), (2, 2)):
        feeds = {
            "x": np.ones(2, np.float32),
            "most": np.array(most, np.int64),
            "bound": np.array(20, np.float32),
        }
        y, every = loaded(feeds)
        np.testing.assert_array_equal(y, np.full(2, 2.0**turns))
        np.testing.assert_array_equal(every[:, 0], 2.0 ** np.arange(1, turns + 1))


def test_the_error_names_an_input_whose_value_must_be_given_at_loading() -> None:
    nodes = [node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)]
    inputs = [tensor("x", ["n", 3]), tensor("axes", [1], TensorProto.INT64)]
    model = make_model(nodes, inputs, [tensor("y", None)])
    with pytest.raises(
        ValueNeededError, match=r"node 'y' \(ReduceSum\): axes must be known"
    ) as caught:
        opwright_onnx.load(model)
    assert caught.value.inputs == ("axes",)
    loaded = opwright_onnx.load(model, inputs={"axes": np.array([1])})
    np.testing.assert_array_equal(loaded(np.ones((2, 3), np.float32))[0], [3, 3])


def test_shape_arguments_override_the_shapes_of_the_model() -> None:
    model, _ = make_perceptron()
    loaded = opwright_onnx.load(model, shapes={"input.1": [2, 4]})
    assert loaded.feeds[0].shape == (2, 4)


def test_the_error_for_an_unknown_input_lists_the_inputs() -> None:
    model, _ = make_perceptron()
    with pytest.raises(AttributeValueError, match=r"shapes must name inputs.*got 'x'.*'input.1'"):
        opwright_onnx.load(model, shapes={"x": [2, 4]})


def test_the_error_names_an_unsupported_operator_and_its_node() -> None:
    nodes = [node("Foo", ["x"], ["y"], name="strange", domain="acme")]
    model = make_model(nodes, [tensor("x", [2])], [tensor("y", [2])], domains={"acme": 1})
    with pytest.raises(
        UnsupportedError, match=r"node 'strange' \(acme::Foo\): its operator must be"
    ):
        opwright_onnx.load(model)


def test_a_function_of_the_model_is_inlined() -> None:
    double = helper.make_function(
        "acme", "Scale", ["a"], ["b"],
        [
            node("Constant", [], ["k"]),
            node("Mul", ["a", "k"], ["b"]),
        ],
        [helper.make_opsetid("", 21)], ["by"],
    )  # fmt: skip
    double.node[0].attribute.add(
        name="value_float", ref_attr_name="by", type=onnx.AttributeProto.FLOAT
    )
    nodes = [node("Scale", ["x"], ["y"], domain="acme", by=4.0)]
    model = make_model(
        nodes, [tensor("x", [2])], [tensor("y", [2])], domains={"acme": 1}, functions=[double]
    )
    np.testing.assert_array_equal(
        opwright_onnx.load(model)(np.ones(2, np.float32))[0], np.full(2, 4.0)
    )


def test_the_error_names_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileMissingError, match=r"must name an existing file.*none\.onnx"):
        opwright_onnx.load(tmp_path / "none.onnx")


def test_known_sizes_stay_known_if_other_sizes_are_dynamic() -> None:
    nodes = [
        node("Shape", ["x"], ["sizes"]),
        node("Gather", ["sizes", "first"], ["rows"]),
        node("Gather", ["sizes", "last"], ["columns"]),
        node("Mul", ["columns", "two"], ["wide"]),
        node("Unsqueeze", ["rows", "zero"], ["a"]),
        node("Unsqueeze", ["wide", "zero"], ["b"]),
        node("Concat", ["a", "b"], ["target"], axis=0),
        node("Reshape", ["x", "target"], ["y"]),
    ]
    numbers = {"first": 0, "last": 2, "two": 2}
    weights = {name: np.array(value, np.int64) for name, value in numbers.items()}
    weights["zero"] = np.array([0], np.int64)
    model = make_model(nodes, [tensor("x", ["n", 2, 3])], [tensor("y", None)], weights)
    loaded = opwright_onnx.load(model)
    assert loaded.fetches[0].shape == (None, 6)
    x = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    np.testing.assert_array_equal(loaded(x)[0], x.reshape(2, 6))


def test_a_sequence_returned_by_a_model_has_a_result_for_each_element() -> None:
    nodes = [node("SplitToSequence", ["x"], ["parts"], axis=0, keepdims=0)]
    parts = helper.make_tensor_sequence_value_info("parts", TensorProto.FLOAT, None)
    loaded = opwright_onnx.load(make_model(nodes, [tensor("x", [2, 3])], [parts]))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    results = loaded(x)
    assert results.names == ("parts.0", "parts.1")
    np.testing.assert_array_equal(results["parts.1"], x[1])


def test_a_loop_with_a_known_number_of_iterations_becomes_a_scan_with_a_gradient() -> None:
    body = helper.make_graph(
        [node("Identity", ["before"], ["again"]), node("Mul", ["state", "w"], ["next"])],
        "body",
        [
            tensor("turn", [], TensorProto.INT64),
            tensor("before", [], TensorProto.BOOL),
            tensor("state", ["n"]),
        ],
        [tensor("again", [], TensorProto.BOOL), tensor("next", ["n"])],
    )
    weights = {"most": np.array(3, np.int64), "w": np.array([2], np.float32)}
    loop = node("Loop", ["most", "", "x"], ["y"], body=body)
    model = make_model([loop], [tensor("x", ["n"])], [tensor("y", ["n"])], weights)
    loaded = opwright_onnx.load(model, trainable=True)
    block = loaded.program.global_block()
    assert "scan" in [op.type for op in block.ops]
    total = block.append_op("sum", {"x": "y"}, {"out": "total"}).output("out")[0]
    [(_, gradient)] = ow.append_backward(block.var(total))
    step = ow.Network(block).compile(["x"], [gradient], scope=loaded.scope)
    np.testing.assert_allclose(step(np.ones(2, np.float32))[0], [2 * 3 * 2.0**2])


@pytest.mark.parametrize("trainable", [False, True])
def test_statistics_that_are_also_a_bias_become_a_separate_variable(trainable: bool) -> None:
    nodes = [
        node("BatchNormalization", ["x", "one", "zero", "zero", "one"], ["norm"], epsilon=0.0),
        node("Relu", ["norm"], ["y"]),
    ]
    weights = {"one": np.ones(32, np.float32), "zero": np.zeros(32, np.float32)}
    weights["zero"][0], weights["one"][0] = 0.5, 4
    model = make_model(nodes, [tensor("x", ["n", 32, 1])], [tensor("y", None)], weights)
    x = np.ones((2, 32, 1), np.float32)
    expected = x.copy()
    expected[:, 0] = (1 - 0.5) / 2 * 4 + 0.5
    np.testing.assert_allclose(opwright_onnx.load(model, trainable=trainable)(x)[0], expected)


def test_parameters_of_a_trainable_model_are_in_writable_memory() -> None:
    model, weights = make_perceptron()
    weights = {name: array.copy() for name, array in weights.items()}
    loaded = opwright_onnx.load(model, trainable=True)
    block = loaded.program.global_block()
    loss = block.append_op("sum", {"x": "scores"}, {"out": "loss"}).output("out")[0]
    gradients = {p.name: g for p, g in ow.append_backward(block.var(loss))}
    rate = block.append_op("fill", {}, {"out": "rate"}, {"shape": [1], "value": 0.5})
    slots = {"param": "w2", "grad": gradients["w2"], "learning_rate": rate.output("out")[0]}
    block.append_op("sgd", slots, {"param_out": "w2"})
    ow.Network(block).compile(["input.1"], [loss], scope=loaded.scope)(FEW)
    active = np.maximum(FEW @ weights["w1"] + weights["b1"], 0)
    moved = weights["w2"] - 0.5 * active.T @ np.ones((5, 3), np.float32)
    np.testing.assert_allclose(loaded.scope.var("w2").numpy(), moved, rtol=1e-5, atol=1e-6)


def test_prelu_slopes_broadcast_from_the_last_axis() -> None:
    slopes = {"slope": np.array([[1.0], [2.0], [3.0]], np.float32)}
    nodes = [node("PRelu", ["x", "slope"], ["y"])]
    loaded = opwright_onnx.load(
        make_model(nodes, [tensor("x", [2, 3, 4])], [tensor("y", None)], slopes)
    )
    x = -np.ones((2, 3, 4), np.float32)
    np.testing.assert_array_equal(loaded(x)[0], x * slopes["slope"])


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"trainble": True}, "load: unknown argument, got 'trainble'; did you mean 'trainable'"),
        ({"shapes": {"input.1": [None]}}, r"shapes must have 2 sizes for 'input.1', got \(None,\)"),
    ],
)
def test_the_error_names_a_wrong_argument(given: dict[str, Any], text: str) -> None:
    model, _ = make_perceptron()
    with pytest.raises(OpwrightError, match=text):
        opwright_onnx.load(model, **given)


def test_a_model_must_be_a_path_bytes_or_a_message() -> None:
    with pytest.raises(AttributeTypeError, match="load: model must be a path, bytes or a ModelP"):
        opwright_onnx.load(3)


@pytest.mark.parametrize("count", [1, 3])
def test_a_resize_to_computed_sizes_keeps_batch_size_and_lengths_dynamic(count: int) -> None:
    nodes = [
        node("Shape", ["like"], ["shape"]),
        node("Slice", ["shape", "zero", "one"], ["batch"]),
        node("Slice", ["shape", "two", "four"], ["lengths"]),
        node("Concat", ["batch", "channels", "lengths"], ["sizes"], axis=0),
        node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear"),
    ]
    numbers = {"zero": [0], "one": [1], "two": [2], "four": [4], "channels": [2]}
    weights = {name: np.array(value, np.int64) for name, value in numbers.items()}
    inputs = [tensor("x", ["n", 2, "h", "w"]), tensor("like", ["n", 3, "a", "b"])]
    loaded = opwright_onnx.load(make_model(nodes, inputs, [tensor("y", None)], weights))
    x = np.arange(count * 8, dtype=np.float32).reshape(count, 2, 2, 2)
    (y,) = loaded(x, np.zeros((count, 3, 4, 2), np.float32))
    assert y.shape == (count, 2, 4, 2)
    np.testing.assert_allclose(y[:, :, ::3], x, rtol=1e-6)
    with pytest.raises(OpwrightError, match="reshape"):
        loaded(x, np.zeros((count + 1, 3, 4, 2), np.float32))


def test_a_constant_with_a_dynamic_shape_can_be_boolean() -> None:
    value = helper.make_tensor("value", TensorProto.BOOL, [1], [True])
    nodes = [node("Shape", ["x"], ["s"]), node("ConstantOfShape", ["s"], ["y"], value=value)]
    outputs = [tensor("y", None, TensorProto.BOOL)]
    loaded = opwright_onnx.load(make_model(nodes, [tensor("x", ["n"])], outputs))
    np.testing.assert_array_equal(loaded(np.zeros(3, np.float32))[0], [True] * 3)


def test_a_clip_at_0_and_6_is_fused_with_the_preceding_layer() -> None:
    nodes = [
        node("MatMul", ["x", "w"], ["product"]),
        node("Clip", ["product", "low", "high"], ["y"]),
    ]
    limits = {"low": np.array(0, np.float32), "high": np.array(6, np.float32)}
    weights = {"w": np.full((4, 3), 2, np.float32), **limits}
    loaded = opwright_onnx.load(
        make_model(nodes, [tensor("x", ["n", 4])], [tensor("y", None)], weights)
    )
    assert [op.type for op in loaded.program.global_block().ops][-1] == "relu6"
    np.testing.assert_array_equal(loaded(FEW)[0], np.clip(FEW @ weights["w"], 0, 6))


@pytest.mark.parametrize("noop", [0, 1])
def test_axes_inputs_that_are_declared_empty_do_not_need_a_feed(noop: int) -> None:
    inputs = [tensor("x", ["n", 3]), tensor("axes", [0], TensorProto.INT64)]
    reduced = node("ReduceSum", ["x", "axes"], ["y"], noop_with_empty_axes=noop)
    loaded = opwright_onnx.load(make_model([reduced], inputs, [tensor("y", None)]))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    (found,) = loaded({"x": x})
    np.testing.assert_array_equal(found, x if noop else [[15]])
