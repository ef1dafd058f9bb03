"""Messages read without protobuf equal messages read with protobuf."""

from __future__ import annotations

from io import BytesIO
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from node_cases import load_cases
from onnx import AttributeProto, TensorProto, helper
from small_models import make_perceptron

import opwright_onnx
from every_case import EVERY, is_one_in
from opwright.errors import AttributeTypeError
from opwright_onnx.errors import ModelError
from opwright_onnx.messages import AttributeType, DataType, read, write_bytes

CASES = {name: case for name, case in load_cases().items() if EVERY or is_one_in(8, name)}


@pytest.mark.parametrize("name", CASES)
def test_a_model_that_is_read_and_written_matches_protobuf(name: str) -> None:
    data = CASES[name].model.SerializeToString()
    again = onnx.ModelProto.FromString(read("ModelProto", data).SerializeToString())
    assert read("ModelProto", again.SerializeToString()).SerializeToString() == (
        again.SerializeToString()
    )
    for ours, theirs in zip(again.graph.node, CASES[name].model.graph.node, strict=True):
        theirs.ClearField("doc_string")
        assert ours == theirs
    assert again.graph.input == CASES[name].model.graph.input
    assert again.opset_import == CASES[name].model.opset_import


def test_the_dtype_and_attribute_type_enums_match_onnx() -> None:
    kinds = AttributeProto.AttributeType.items()
    assert {kind.name: kind.value for kind in AttributeType} == dict(kinds)
    known = {element.name: element.value for element in DataType}
    assert dict(TensorProto.DataType.items()).items() <= known.items()


def test_a_tensor_with_packed_values_is_read() -> None:
    for numbers in (np.array([1.5, -2], np.float32), np.array([-3, 2**40], np.int64)):
        tensor = helper.make_tensor(
            "c", helper.np_dtype_to_tensor_dtype(numbers.dtype), [2], numbers
        )
        node = helper.make_node("Constant", [], ["y"], value=tensor)
        output = helper.make_tensor_value_info("y", tensor.data_type, [2])
        graph = helper.make_graph([node], "g", [], [output])
        data = helper.make_model(graph).SerializeToString()
        np.testing.assert_array_equal(opwright_onnx.load(data)()[0], numbers)


def test_a_repeated_field_is_merged_as_in_protobuf() -> None:
    model = make_perceptron()[0]
    model.producer_name = "one"
    other = onnx.ModelProto(producer_name="other")
    twice = model.SerializeToString() + other.SerializeToString()
    with pytest.raises(ValueError, match="written twice"):
        read("ModelProto", twice)
    assert opwright_onnx.load(twice).notes["onnx"]["producer"].split()[0] == "other"


def test_messages_that_are_too_deep_are_refused() -> None:
    graph = b""
    for _ in range(60):  # node, attribute, g
        graph = write_bytes(1, write_bytes(5, write_bytes(6, graph)))
    with pytest.raises(ModelError, match="must be an ONNX model"):
        opwright_onnx.load(write_bytes(7, graph))


def test_the_error_for_a_file_or_an_exported_program_states_what_to_pass() -> None:
    exported = SimpleNamespace(model_proto=None)
    with pytest.raises(AttributeTypeError, match=r"got BytesIO; pass file.read\(\)"):
        opwright_onnx.load(BytesIO())  # type: ignore[arg-type]
    with pytest.raises(AttributeTypeError, match=r"got SimpleNamespace; pass program.model_proto"):
        opwright_onnx.load(exported)  # type: ignore[arg-type]
