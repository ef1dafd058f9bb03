"""Samples drawn from an OpProto depend only on the seed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import opwright as ow
from opwright.errors import AttributeTypeError, AttributeValueError
from opwright.op import (
    AttrProto,
    AttrType,
    InferContext,
    NoGradient,
    OpDefinition,
    OpMaker,
    same_shape_as,
)
from opwright.packages import Package
from opwright_kit.testing import Draw, Sample, draw_samples
from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.samples import attributes
from opwright_kit.testing.samples.draw import draw_sample
from opwright_kit.testing.samples.sample import differ
from opwright_kit.testing.samples.samplers import find_sampler


def get(op_type: str) -> OpDefinition:
    return ow.current_context().ops.get(op_type)


def lengths_of(samples: list[Sample], slot: str = "x") -> set[int]:
    return {dim for s in samples for array in s.inputs[slot] for dim in array.shape}


def test_lengths_are_0_or_1_or_near_vector_widths_or_large() -> None:
    drawn = draw_samples(get("exp"), "float32", seed=0)
    assert {0, 1, 7, 8, 9, 15, 16, 17, 31, 33, 65, 127, 257, 1501, 5003} <= lengths_of(drawn)


@pytest.mark.parametrize("op_type", ["exp", "softmax", "layer_norm", "cross_entropy"])
def test_an_empty_batch_is_drawn(op_type: str) -> None:
    shapes = [s.inputs["x"][0].shape for s in draw_samples(get(op_type), "float32", seed=0)]
    assert any(len(shape) > 1 and shape[0] == 0 and 0 not in shape[1:] for shape in shapes)


def test_a_label_describes_its_sample() -> None:
    for sample in draw_samples(get("exp"), "float32", seed=0):
        if sample.label.startswith("length "):
            assert int(sample.label.split()[1]) in sample.inputs["x"][0].shape
        if sample.label == "empty":
            assert sample.inputs["x"][0].size == 0


def test_equal_seeds_draw_equal_samples_and_different_seeds_do_not() -> None:
    first, again, other = (draw_samples(get("add"), "float32", seed) for seed in (3, 3, 4))
    assert [s.describe() for s in first] == [s.describe() for s in again]
    assert [s.describe() for s in first] != [s.describe() for s in other]
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a.inputs["x"][0], b.inputs["x"][0])


def test_inputs_with_broadcast_shapes_are_drawn_for_operators_that_broadcast() -> None:
    drawn = draw_samples(get("add"), "float32", seed=0)
    assert any(s.inputs["x"][0].shape != s.inputs["y"][0].shape for s in drawn)


@pytest.mark.parametrize(
    "op_type",
    [
        "matmul",
        "conv2d",
        "layer_norm",
        "batch_norm",
        "embedding",
        "split",
        "cross_entropy",
        "where",
    ],
)
def test_the_shape_rule_accepts_samples_drawn_from_the_slot_comments(op_type: str) -> None:
    definition = get(op_type)
    dtype = "bool" if op_type == "where" else "float32"
    drawn = draw_samples(definition, dtype, seed=0)
    assert len(drawn) >= 15
    for sample in drawn:
        sample.infer(definition)


def test_attribute_range_limits_and_all_allowed_values_are_drawn() -> None:
    drawn = draw_samples(get("dropout"), "float32", seed=0)
    assert {s.attrs["probability"] for s in drawn if s.label == "probability at its maximum"} == {
        1.0
    }
    modes = {s.attrs["mode"] for s in draw_samples(get("pad"), "float32", seed=0)}
    assert modes == {"constant", "edge", "reflect", "wrap"}


def test_range_limits_are_valid_values_and_values_outside_are_refused() -> None:
    attr = AttrProto("rate", "a", AttrType.FLOAT, min=0.0, max=1.0, max_exclusive=True)
    values = dict(attributes.edges(attr))
    assert values["at its minimum"] == 0.0
    assert 0.99 < values["at its maximum"] < 1.0
    outside = list(attributes.outside(attr))
    assert {-1000.0, 1.0, 1001.0, "text"} <= set(outside)
    assert any(isinstance(value, float) and math.isnan(value) for value in outside)
    for value in outside:
        with pytest.raises((AttributeValueError, AttributeTypeError), match="acme.op: rate must"):
            attr.check("acme.op", value)


def test_dtypes_of_slots_follow_their_rules() -> None:
    for sample in draw_samples(get("cast_like"), "int64", seed=0):
        assert sample.inputs["x"][0].dtype == np.int64
    for sample in draw_samples(get("layer_norm"), "float64", seed=0):
        assert {a.dtype.name for arrays in sample.inputs.values() for a in arrays} == {"float64"}


def test_a_package_provides_samples_that_the_proto_cannot_describe() -> None:
    pick = (
        OpMaker("acme.pick")
        .add_comment("Pick, out = x[index].")
        .add_input("x", "float [n]")
        .add_input("index", "[m], below n")
        .dtypes("int64")
        .add_output("out", "shape and dtype of x")
        .same_dtype_as("x")
        .build(infer_shape=same_shape_as("x"), gradient=NoGradient("it is only drawn"))
    )

    def sampler(draw: Draw) -> tuple[dict[str, np.ndarray], dict[str, object]]:
        draw.refused["index"] = (-1, 5)
        return {"x": draw.floats((5,)), "index": draw.integers((draw.length,), 3, 5)}, {}

    drawn = draw_samples(pick, "float32", seed=0, sampler=sampler)
    assert all(sample.refused == {"index": (-1, 5)} for sample in drawn)
    assert lengths_of(drawn) == {5}
    assert {17, 1501} <= lengths_of(drawn, "index")
    assert {int(i) for s in drawn for i in s.inputs["index"][0]} == {3, 4}


def test_a_sampler_for_one_package_takes_precedence_over_a_sampler_for_any_package() -> None:
    def of_any(draw: Draw) -> None:
        """Find nothing."""

    def of_acme(draw: Draw) -> None:
        """Find nothing."""

    made = OpMaker("acme.multi_sgd").add_comment("Many updates.").add_input("x", "[1]")
    made.add_output("out", "[1]").same_dtype_as("x")
    plan_only = made.build(infer_shape=same_shape_as("x"), plan_only=True)
    assert find_sampler({"*.multi_sgd": of_any}, plan_only) is of_any
    assert find_sampler({"*.multi_sgd": of_any, "acme.multi_sgd": of_acme}, plan_only) is of_acme
    assert find_sampler({"*.tanh": of_any}, get("tanh")) is None


def test_samples_for_a_gradient_operator_contain_forward_kernel_outputs() -> None:
    context = CheckContext(ow.current_context())
    drawn = context.samples(get("tanh_grad"), "float64")
    assert len(drawn) >= 15
    for sample in drawn:
        assert sample.forward is not None
        np.testing.assert_allclose(
            sample.inputs["out"][0], np.tanh(sample.forward.inputs["x"][0]), rtol=1e-12
        )


def test_a_sample_is_described_in_one_line() -> None:
    x = np.zeros((2, 3), np.float32)
    i = np.array([1], np.int64)
    sample = Sample("gather", {"x": (x,), "index": (i,)}, {"axis": 0}, label="small")
    assert sample.describe() == "x float32[2, 3], index int64[1] = [1], axis=0 (small)"


def test_the_numpy_kernel_is_the_reference_and_is_compared_with_other_packages() -> None:
    context = CheckContext(ow.current_context())
    first, *others = context.references("relu", "float32")
    assert first.library == "numpy"
    assert first not in context.references("relu", "float32", first)
    for other in others:
        assert context.references("relu", "float32", other)[0] is first
    same = context.references("relu", "float32", first)
    assert all(entry.package != first.package for entry in same)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"inputs": {"indx": [0]}},
            "inputs must name slots of gather, got 'indx'; did you mean 'ind",
        ),
        ({"attrs": {"axes": 0}}, "attributes must name attributes of gather, got 'axes'; did you"),
        ({"refused": {"indx": (-1, 9)}}, "draw.refused must name slots of gather, got 'indx'"),
        ({"without_effect": {"axes": "no"}}, "draw.without_effect must name attributes of gather"),
    ],
)
def test_a_sampler_that_names_an_unknown_argument_is_refused(
    change: dict[str, dict[str, Any]], message: str
) -> None:
    def draw_gather(draw: Draw) -> tuple[dict[str, Any], dict[str, Any]]:
        for name in ("refused", "without_effect"):
            getattr(draw, name).update(change.get(name, {}))
        return change.get("inputs", {}), change.get("attrs", {})

    with pytest.raises(ValueError, match=message):
        draw_sample(get("gather"), "float32", 0, draw_gather)


def test_setting_an_unknown_attribute_of_a_draw_raises() -> None:
    def draw_exp(draw: Any) -> None:
        draw.tolerence = (0.1, "misspelled")

    with pytest.raises(AttributeError, match="no attribute 'tolerence'"):
        draw_sample(get("exp"), "float32", 0, draw_exp)


def test_the_reason_for_missing_samples_names_the_error() -> None:
    def shape(ctx: InferContext) -> None:
        ctx.set_output("ot", ctx.input("x").shape)

    context = ow.Context.discover()
    maker = OpMaker("acme.twice").add_comment("Twice.").add_input("x", "any shape")
    twice = maker.add_output("out", "as x").build(shape, NoGradient("of no interest"))
    context.ops.add("acme.twice", twice, Package("acme", "opwright-acme", "1.0"))
    checked = CheckContext(context)
    assert checked.samples(twice, "float32") == []
    reason = str(checked.lack_of_inputs("acme.twice"))
    assert "infer_shape sets an unknown output, got 'ot'; did you mean 'out'" in reason


def test_nan_equals_nan_in_8_bit_floats() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    one, other = (np.array([math.nan, 1, last]).astype(ml_dtypes.float8_e4m3fn) for last in (2, 3))
    assert differ(one, other).tolist() == [False, False, True]
