"""Sizes that a run computes, in models that ONNX Runtime also runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import GraphProto, ModelProto, TensorProto, helper, numpy_helper
from small_models import make_model, node, tensor

import opwright_onnx
from opwright_onnx import ValueNeededError

INT64 = TensorProto.INT64


def number(value: Any, dtype: str = "int64") -> Any:
    return np.array(value, dtype)


def check(model: ModelProto, *feeds: Mapping[str, Any]) -> None:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    loaded = opwright_onnx.load(model)
    for feed in feeds:
        for one, other in zip(loaded(feed), session.run(None, feed), strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)


def draw(*shape: int) -> dict[str, Any]:
    return {"x": np.random.default_rng(0).standard_normal(shape).astype(np.float32)}


@pytest.mark.parametrize("batch", [1, "n"])
def test_a_resize_to_lengths_times_a_factor(batch: int | str) -> None:
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Slice", ["shape", "zero", "two"], ["kept"]),
        node("Slice", ["shape", "two", "four"], ["lengths"]),
        node("Cast", ["lengths"], ["floats"], to=TensorProto.FLOAT),
        node("Mul", ["floats", "factor"], ["longer"]),
        node("Floor", ["longer"], ["whole"]),
        node("Cast", ["whole"], ["lasts"], to=INT64),
        node("Concat", ["kept", "lasts"], ["sizes"], axis=0),
        node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear"),
    ]
    weights = {name: number([i]) for name, i in (("zero", 0), ("two", 2), ("four", 4))}
    weights["factor"] = number(1.7, "float32")
    inputs, outputs = [tensor("x", [batch, 2, "h", "w"])], [tensor("y", None)]
    count = 2 if batch == "n" else 1
    check(make_model(nodes, inputs, outputs, weights), draw(1, 2, 3, 5), draw(count, 2, 6, 4))


@pytest.mark.parametrize("rounding", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
@pytest.mark.parametrize("coordinates", ["asymmetric", "half_pixel"])
def test_nearest_neighbors_at_a_factor_that_float32_rounds(rounding: str, coordinates: str) -> None:
    attrs = {"nearest_mode": rounding, "coordinate_transformation_mode": coordinates}
    nodes = [node("Resize", ["x", "", "scales"], ["y"], mode="nearest", **attrs)]
    weights = {"scales": number([1, 1, 1.7, 0.6], "float32")}
    inputs, outputs = [tensor("x", [1, 2, "h", "w"])], [tensor("y", None)]
    check(make_model(nodes, inputs, outputs, weights), draw(1, 2, 20, 10), draw(1, 2, 10, 25))


def test_a_range_of_floats_up_to_a_length() -> None:
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Cast", ["shape"], ["lengths"], to=TensorProto.FLOAT),
        node("Squeeze", ["lengths"], ["length"]),
        node("Range", ["start", "length", "step"], ["y"]),
    ]
    weights = {"start": number(0.5, "float32"), "step": number(0.75, "float32")}
    model = make_model(nodes, [tensor("x", ["n"])], [tensor("y", None)], weights)
    check(model, draw(4), draw(7), draw(0))


@pytest.mark.parametrize("largest", [0, 1])
def test_as_many_of_the_largest_elements_as_a_run_computes(largest: int) -> None:
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "last"], ["length"]),
        node("Min", ["length", "limit"], ["k"]),
        node("TopK", ["x", "k"], ["values", "places"], largest=largest),
    ]
    weights = {"last": number([1]), "limit": number([4])}
    outputs = [tensor("values", None), tensor("places", None, INT64)]
    model = make_model(nodes, [tensor("x", ["n", "m"])], outputs, weights)
    check(model, draw(2, 3), draw(3, 6))


def make_branches(nodes: Sequence[Any], weights: Mapping[str, Any]) -> list[GraphProto]:
    """Return a branch without boxes, and a branch that keeps boxes, or any other last node."""
    empty = [node("Constant", [], ["none"], value=numpy_helper.from_array(number([])))]
    return [
        helper.make_graph(empty, "empty", [], [tensor("none", [0], INT64)]),
        helper.make_graph(
            nodes,
            "full",
            [],
            [tensor("kept", ["k"], INT64)],
            [numpy_helper.from_array(value, name) for name, value in weights.items()],
        ),
    ]


def test_a_branch_that_counts_boxes() -> None:
    weights = {"limit": number(9), "overlap": number(0.5, "float32"), "box": number([2])}
    weights |= {"first": number([0]), "low": number(0.2, "float32")}
    inner = [
        node("ReduceMax", ["boxes"], ["most"], keepdims=0),
        node("Div", ["boxes", "most"], ["small"]),
        node("Unsqueeze", ["small", "first"], ["batch"]),
        node("Unsqueeze", ["scores", "pair"], ["rows"]),
        node("NonMaxSuppression", ["batch", "rows", "limit", "overlap", "low"], ["places"]),
        node("Gather", ["places", "box"], ["column"], axis=1),
        node("Reshape", ["column", "flat"], ["kept"]),
    ]
    weights |= {"pair": number([0, 1]), "flat": number([-1])}
    then, other = make_branches(inner, weights)
    nodes = [
        node("Shape", ["scores"], ["shape"]),
        node("Squeeze", ["shape"], ["count"]),
        node("Equal", ["count", "zero"], ["is_empty"]),
        node("If", ["is_empty"], ["kept"], then_branch=then, else_branch=other),
    ]
    inputs = [tensor("boxes", ["n", 4]), tensor("scores", ["n"])]
    model = make_model(nodes, inputs, [tensor("kept", None, INT64)], {"zero": number(0)})
    rng = np.random.default_rng(0)
    feeds = []
    for count in (7, 1, 0):
        corners = rng.random((count, 2)).astype(np.float32)
        boxes = np.concatenate([corners, corners + 1], axis=1)
        feeds.append({"boxes": boxes, "scores": rng.random(count).astype(np.float32)})
    check(model, *feeds)


def test_a_weight_that_is_read_first_in_a_loop_that_is_unrolled() -> None:
    body = helper.make_graph(
        [
            node("Add", ["one", "turn"], ["end"]),
            node("Reshape", ["turn", "flat"], ["start"]),
            node("Reshape", ["end", "flat"], ["stop"]),
            node("Slice", ["ids", "start", "stop"], ["own"]),
            node("Gather", ["table", "own"], ["rows"]),
            node("ReduceSum", ["rows", "axis"], ["total"], keepdims=0),
            node("Identity", ["go"], ["again"]),
        ],
        "body",
        [tensor("turn", [], INT64), tensor("go", [], TensorProto.BOOL)],
        [tensor("again", [], TensorProto.BOOL), tensor("total", [300])],
    )
    table = np.random.default_rng(0).standard_normal((9, 300)).astype(np.float32)
    weights = {"table": table, "count": number(3), "one": number(1), "axis": number([0])}
    nodes = [node("Loop", ["count", ""], ["sums"], body=body)]
    model = make_model(
        nodes,
        [tensor("ids", ["n"], INT64)],
        [tensor("sums", None)],
        weights | {"flat": number([1])},
    )
    check(model, {"ids": number([4, 8, 0])}, {"ids": number([1, 1, 2, 3])})


def test_the_error_names_the_trip_count_of_a_loop_with_a_sequence() -> None:
    body = helper.make_graph(
        [node("SequenceInsert", ["list", "x"], ["longer"]), node("Identity", ["go"], ["again"])],
        "body",
        [
            tensor("turn", [], INT64),
            tensor("go", [], TensorProto.BOOL),
            helper.make_tensor_sequence_value_info("list", TensorProto.FLOAT, None),
        ],
        [
            tensor("again", [], TensorProto.BOOL),
            helper.make_tensor_sequence_value_info("longer", TensorProto.FLOAT, None),
        ],
    )
    nodes = [
        node("SequenceEmpty", [], ["none"]),
        node("Size", ["x"], ["count"]),
        node("Loop", ["count", "yes", "none"], ["parts"], body=body),
        node("ConcatFromSequence", ["parts"], ["y"], axis=0),
    ]
    weights = {"yes": number(True, "bool")}
    model = make_model(nodes, [tensor("x", ["n"])], [tensor("y", None)], weights)
    message = r"node 'parts' \(Loop\): M \(carried values of a loop must be tensors.*'x'"
    with pytest.raises(ValueNeededError, match=message):
        opwright_onnx.load(model)
    loaded = opwright_onnx.load(model, shapes={"x": [2]})
    np.testing.assert_array_equal(loaded(np.ones(2, np.float32))[0], np.ones(4))


def test_the_error_for_an_unknown_size_advises_a_shape() -> None:
    nodes = [node("Shape", ["x"], ["shape"]), node("ReduceSum", ["y", "shape"], ["z"])]
    inputs = [tensor("x", ["n"]), tensor("y", [2, 3])]
    model = make_model(nodes, inputs, [tensor("z", None)])
    message = r"computed from the shape of 'x'; give shapes: load\(path, shapes=\{name: shape\}\)"
    with pytest.raises(ValueNeededError, match=message):
        opwright_onnx.load(model)


@pytest.mark.parametrize("length", [None, 5, 6, 12])
def test_the_inverse_transform_of_half_a_spectrum(length: int | None) -> None:
    weights = {"axis": number(1)} | ({} if length is None else {"length": number(length)})
    names = ["x", "" if length is None else "length", "axis"]
    nodes = [node("DFT", names, ["y"], inverse=1, onesided=1)]
    model = make_model(nodes, [tensor("x", [2, 4, 2])], [tensor("y", None)], weights)
    x = draw(2, 4, 2)["x"]
    (y,) = opwright_onnx.load(model)(x)
    expected = np.fft.irfft(x[..., 0] + 1j * x[..., 1], n=length, axis=1)[..., None]
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


def test_bounds_of_a_clip_can_be_vectors_of_one_number() -> None:
    weights = {"low": number([-0.5], "float32"), "high": number([0.25], "float32")}
    nodes = [node("Clip", ["x", "low", "high"], ["y"])]
    model = make_model(nodes, [tensor("x", ["n", 3])], [tensor("y", None)], weights)
    x = draw(4, 3)["x"]
    np.testing.assert_array_equal(opwright_onnx.load(model)(x)[0], np.clip(x, -0.5, 0.25))


def test_paddings_that_a_run_computes_can_be_negative() -> None:
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Sub", ["most", "shape"], ["behind"]),
        node("Concat", ["before", "behind"], ["pads"], axis=0),
        node("Pad", ["x", "pads"], ["y"]),
    ]
    weights = {"most": number([3, 4]), "before": number([1, -1])}
    model = make_model(nodes, [tensor("x", ["n", "m"])], [tensor("y", None)], weights)
    check(model, draw(2, 3), draw(5, 4), draw(3, 6))


def test_parts_of_an_unknown_length() -> None:
    nodes = [
        node("Split", ["x"], ["a", "b", "c"], num_outputs=3, axis=1),
        node("Shape", ["x"], ["shape"], start=1),
        node("Sub", ["shape", "one"], ["rest"]),
        node("Concat", ["one", "rest"], ["lengths"], axis=0),
        node("Split", ["x", "lengths"], ["first", "others"], axis=1),
    ]
    outputs = [tensor(name, None) for name in ("a", "b", "c", "first", "others")]
    model = make_model(nodes, [tensor("x", [2, "n"])], outputs, {"one": number([1])})
    check(model, draw(2, 6), draw(2, 7), draw(2, 8))
