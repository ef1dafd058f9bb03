"""Forms of calls: a number instead of a list, requested outputs, names of other frameworks."""

from __future__ import annotations

import re

import numpy as np
import pytest

import opwright as ow
from opwright.errors import AttributeTypeError, AttributeValueError, SlotError
from opwright.op import AttrType
from opwright_std.foreign_names import FOREIGN_NAMES

IMAGES = np.random.default_rng(0).normal(size=(2, 3, 8, 8)).astype("float32")
WINDOWS = np.ones((4, 3, 3, 3), "float32")


def lists_of_numbers():
    for op_type in ow.list_ops():
        for attr in ow.op_proto(op_type).attrs:
            if attr.type in (AttrType.INTS, AttrType.FLOATS) and not attr.allowed:
                yield op_type, attr


def test_a_number_fills_a_list_attribute_of_every_operator():
    found = list(lists_of_numbers())
    assert len(found) > 40
    for op_type, attr in found:
        number = 1.0 if attr.type is AttrType.FLOATS else 1
        assert attr.check(op_type, number) == (number,) * attr.length
        assert attr.check(op_type, np.float64(1) if attr.type is AttrType.FLOATS else np.int64(1))
        if attr.default:
            assert len(attr.default) == attr.length or attr.length == 1


def test_a_list_attribute_keeps_its_length_in_a_protobuf_message():
    proto = ow.op_proto("conv2d")
    again = type(proto).from_proto(proto.to_proto())
    assert {a.name: a.length for a in again.attrs}["paddings"] == 4
    assert again == proto


@pytest.mark.parametrize(
    "call",
    [
        lambda x, n: ow.ops.sum(x, axis=n(1, 1)),
        lambda x, n: ow.ops.max_pool2d(x, kernel=n(2, 2), strides=n(1, 2), paddings=n(1, 4)),
        lambda x, n: ow.ops.avg_pool2d(x, kernel=n(3, 2), strides=n(2, 2)),
        lambda x, n: ow.ops.conv2d(
            x, WINDOWS, strides=n(2, 2), paddings=n(1, 4), dilations=n(1, 2)
        ),
        lambda x, n: ow.ops.adaptive_avg_pool2d(x, output_size=n(2, 2)),
        lambda x, n: ow.ops.unsqueeze(x, axis=n(0, 1)),
        lambda x, n: ow.ops.flip(x, axis=n(-1, 1)),
    ],
)
def test_a_number_and_its_list_give_equal_results_on_arrays_and_in_programs(call):
    wanted = call(IMAGES, lambda number, length: [number] * length)
    np.testing.assert_array_equal(call(IMAGES, lambda number, length: number), wanted)
    block = ow.Program().global_block()
    x = block.create_var("x", IMAGES.shape, is_data=True)
    out = call(x, lambda number, length: number)
    (value,) = ow.Network(block).compile(feed=["x"], fetch=[out])(x=IMAGES)
    np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-6)


def test_a_number_of_a_wrong_type_is_refused():
    with pytest.raises(AttributeTypeError, match="kernel must be a list of ints, got kernel=2.5"):
        ow.ops.max_pool2d(IMAGES, kernel=2.5)
    with pytest.raises(AttributeTypeError, match="kernel must be a list of ints, got kernel=True"):
        ow.ops.max_pool2d(IMAGES, kernel=True)


def test_requested_outputs_are_returned_in_the_requested_order():
    out = ow.ops.max_pool2d(IMAGES, kernel=2)
    index, again = ow.ops.max_pool2d(IMAGES, kernel=2, returns=["index", "out"])
    np.testing.assert_array_equal(again, out)
    assert index.dtype.kind == "i"
    np.testing.assert_array_equal(ow.ops.max_pool2d(IMAGES, kernel=2, returns="index"), index)
    assert isinstance(ow.ops.max_pool2d(IMAGES, kernel=2, returns=["out"]), tuple)
    assert isinstance(ow.ops.max_pool2d(IMAGES, kernel=2, returns=None), np.ndarray)


def test_optional_outputs_are_computed_on_request():
    x = np.array([3, 1, 3, 2])
    for call in (ow.ops.unique, _unique_in_a_program):
        values, inverse, counts = call(x, returns=["out", "inverse", "counts"])
        np.testing.assert_array_equal(values[inverse], x)
        np.testing.assert_array_equal(counts, [1, 1, 2])


def _unique_in_a_program(x, returns):
    block = ow.Program().global_block()
    outs = ow.ops.unique(block.create_var("x", x.shape, x.dtype, is_data=True), returns=returns)
    return ow.Network(block).compile(feed=["x"], fetch=list(outs))(x=x)


def test_programs_return_requested_intermediate_outputs():
    block = ow.Program().global_block()
    x = block.create_var("x", IMAGES.shape, is_data=True)
    out, index = ow.ops.max_pool2d(x, kernel=2, returns=["out", "index"])
    fetched = ow.Network(block).compile(feed=["x"], fetch=[out, index])(x=IMAGES)
    wanted = ow.ops.max_pool2d(IMAGES, kernel=2, returns=["out", "index"])
    for value, array in zip(fetched, wanted, strict=True):
        np.testing.assert_array_equal(value, array)


@pytest.mark.parametrize("returns", ["indx", ["out", "indx"], []])
def test_the_error_for_an_unknown_output_lists_the_existing_outputs(returns):
    with pytest.raises(SlotError, match="outputs are 'out', 'index'"):
        ow.ops.max_pool2d(IMAGES, kernel=2, returns=returns)


def test_every_name_of_another_framework_suggests_one_operator():
    known = {*ow.list_ops()}
    assert known.issuperset(FOREIGN_NAMES)
    folded = {name.replace("_", "") for name in known}
    seen: set[str] = set()
    for op_type, names in FOREIGN_NAMES.items():
        for name in names.split():
            text = rf"^{name}: .*did you mean {re.escape(repr(op_type))}\?"
            with pytest.raises(AttributeError, match=text):
                getattr(ow.ops, name)
            plain = name.replace("_", "")
            assert plain not in seen | folded, name
            seen.add(plain)
    assert len(seen) > 100


@pytest.mark.parametrize("name", ["ReduceSum", "reduce_sum", "reducesum"])
def test_case_and_underscores_of_a_foreign_name_are_ignored(name):
    with pytest.raises(AttributeError, match="did you mean 'sum'"):
        getattr(ow.ops, name)


FOREIGN_CALLS = [
    ("softmax", "dim", "axis"),
    ("transpose", "perm", "axes"),
    ("sum", "keepdim", "keepdims"),
    ("max_pool2d", "kernel_size", "kernel"),
    ("max_pool2d", "stride", "strides"),
    ("max_pool2d", "padding", "paddings"),
    ("dropout", "p", "probability"),
    ("layer_norm", "eps", "epsilon"),
]


@pytest.mark.parametrize(("op_type", "foreign", "own"), FOREIGN_CALLS)
def test_the_error_for_an_argument_name_of_another_framework_suggests_our_name(
    op_type, foreign, own
):
    match = rf"{op_type}: unknown .*, got '{foreign}'; did you mean '{own}'\?"
    x = ow.Program().global_block().create_var("x", IMAGES.shape, is_data=True)
    for value in (IMAGES, x):
        with pytest.raises(AttributeValueError, match=match):
            getattr(ow.ops, op_type)(value, **{foreign: 1})
    with pytest.raises(SlotError, match=match):
        ow.Operator(op_type, x="x", out="out", **{foreign: 1})
    with pytest.raises(AttributeValueError, match=match):
        x.block.append_op(op_type, {"x": "x"}, {"out": "out"}, {foreign: 1})


def test_the_error_for_a_slot_name_of_another_framework_suggests_our_name():
    with pytest.raises(SlotError, match=r"softmax: unknown input, got 'input'; did you mean 'x'\?"):
        ow.Program().global_block().append_op("softmax", {"input": "x"}, {"out": "out"})
