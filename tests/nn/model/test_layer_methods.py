"""Layer methods of a Model work like the layer functions, with inputs given by name."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterable

import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import AttributeTypeError, AttributeValueError
from opwright_nn import layers
from opwright_nn.layers.inputs import Input

LAYERS = [name for name in layers.__all__ if name != "data"]
WRITTEN_OUT = {"accuracy", "concat"}
"""Methods whose signature differs from their layer function."""

BEGIN_WITH_A_FUNCTION = {"scan", "while_loop"}
"""Layer functions whose first arguments are functions, followed by variables."""


def method_of(layer):
    return getattr(nn.Model, {"fc": "fc_layer"}.get(layer, layer))


def test_each_layer_function_has_a_method():
    assert all(callable(method_of(layer)) for layer in LAYERS)


@pytest.mark.parametrize("layer", LAYERS)
def test_a_method_has_the_parameters_of_its_layer_function(layer):
    signature = inspect.signature(getattr(layers, layer))
    own = inspect.signature(method_of(layer))
    first, *others = own.parameters.values()
    assert first.name == "self"
    if layer == "concat":  # in a Model, the first axis is the batch
        others[1] = others[1].replace(default=0)
    assert others == [*signature.parameters.values()]
    assert own.return_annotation == signature.return_annotation


@pytest.mark.parametrize("layer", LAYERS)
def test_a_method_has_the_documentation_and_types_of_its_layer_function(layer):
    method, function = method_of(layer), getattr(layers, layer)
    text = inspect.getdoc(method)
    assert f"`layers.{layer}`" in text if layer in WRITTEN_OUT else text == inspect.getdoc(function)
    parameter = next(iter(typing.get_type_hints(method).items()))
    inputs = [("input", Input), ("input", Iterable[Input]), ("condition", Input)]
    assert parameter in inputs or layer in BEGIN_WITH_A_FUNCTION
    assert method.__qualname__ == f"LayerMethods.{method.__name__}"


@pytest.mark.parametrize("layer", LAYERS)
def test_each_variable_of_a_layer_can_be_given_by_name(layer):
    hints = typing.get_type_hints(getattr(layers, layer))
    for name, hint in hints.items():
        assert name == "return" or hint not in (ow.Variable, ow.Variable | None), name


CALLS = [
    ("fc", (4,), {"activation": "relu"}),
    ("batch_norm", (), {"momentum": 0.5}),
    ("layer_norm", (), {"bias": False}),
    ("mean", ([0],), {"keepdims": True}),
    ("reshape", ([2, -1],), {}),
    ("leaky_relu", (0.2,), {}),
    ("dropout", (0.25,), {"training": False}),
    ("tanh", (), {"name": "last"}),
]


@pytest.mark.parametrize(("layer", "args", "options"), CALLS)
def test_a_method_appends_the_operators_of_its_layer_function(layer, args, options):
    models = nn.Model(), nn.Model()
    inputs = [model.input("x", [None, 8]) for model in models]
    with models[0].guard():
        getattr(layers, layer)(inputs[0], *args, **options)
    method_of(layer)(models[1], "x", *args, **options)
    assert str(models[0].program) == str(models[1].program)
    assert str(models[0].startup_program) == str(models[1].startup_program)


@pytest.mark.parametrize(
    ("append", "name", "dtype"),
    [
        (lambda m: m.relu("new"), "new", "float32"),
        (lambda m: m.embedding(input="new", size=[9, 4]), "new", "int64"),
        (lambda m: m.accuracy("scores", "new"), "new", "int64"),
        (lambda m: m.cross_entropy("prob", "new"), "new", "int64"),
        (lambda m: m.cross_entropy("prob", "new", soft_label=True), "new", "float32"),
        (lambda m: m.softmax_with_cross_entropy("new", "label"), "new", "float32"),
        (lambda m: m.softmax_with_cross_entropy("logits", "new", True), "new", "float32"),
        (lambda m: m.sigmoid_cross_entropy_with_logits("logits", "new"), "new", "float32"),
        (lambda m: m.concat(["a", "new"]), "new", "float32"),
        (lambda m: m.nll("logs", "new"), "new", "int64"),
        (lambda m: m.ctc_loss("logs", "new", "lengths"), "new", "int64"),
        (lambda m: m.ctc_loss("logs", "label", label_lengths="new"), "new", "int64"),
        (lambda m: m.lstm("words", 3, h0="new"), "new", "float32"),
        (lambda m: m.lstm("words", 3, lengths="new"), "new", "int64"),
        (lambda m: m.attention(m.input("x", [None, 3, 4]), 2, mask="new"), "new", "bool"),
        (lambda m: m.attention(m.input("x", [None, 3, 4]), 2, lengths="new"), "new", "int64"),
        (lambda m: m.cond("new", lambda: m.input("x"), lambda: m.input("x")), "new", "bool"),
    ],
)
def test_a_new_name_becomes_an_input_of_the_dtype_that_the_layer_reads(append, name, dtype):
    model = nn.Model()
    append(model)
    variable = model.program.global_block().var(name)
    assert variable.is_data
    assert variable.dtype == dtype


@pytest.mark.parametrize(
    ("call", "error", "rule"),
    [
        (lambda m: m.fc_layer("x"), TypeError, "^Model.fc_layer: .* argument: 'size'"),
        (lambda m: m.fc_layer("x", 3, sizes=4), TypeError, "^Model.fc_layer: .* 'sizes'"),
        (lambda m: m.fc_layer("x", 3, 4), TypeError, "^Model.fc_layer: too many positional"),
        (lambda m: m.fc_layer(x="x", size=3), TypeError, "^Model.fc_layer: .* 'input'"),
        (lambda m: m.fc_layer(3, 4), AttributeTypeError, "^fc: input must be a variable"),
        (lambda m: m.silu(None), AttributeTypeError, "^silu: input must be a variable"),
        (lambda m: m.embedding("", [9, 4]), AttributeValueError, "^embedding: input must be a str"),
        (lambda m: m.concat(["x", 3]), AttributeTypeError, r"^concat: input\[1\] must be a var"),
        (lambda m: m.concat("x"), AttributeTypeError, r"^concat: .*; write concat\(input=\[a, b"),
        (lambda m: m.cond(1, None, None), AttributeTypeError, "^cond: condition must be a var"),
    ],
)
def test_the_error_for_a_wrong_argument_names_the_method(call, error, rule, everything):
    model = nn.Model()
    before = everything(model.program)
    with pytest.raises(error, match=rule):
        call(model)
    assert everything(model.program) == before


def test_cond_accepts_the_name_of_its_condition():
    model = nn.Model()
    x = model.input("x", [2])
    out = model.cond("condition", lambda: model.tanh(x), lambda: model.relu(x))
    assert model.predict(out, x=[-1.0, 2.0], condition=[False]).tolist() == [0.0, 2.0]


def test_layer_functions_accept_names_while_a_model_is_built():
    model = nn.Model()
    with model:
        hidden = layers.fc("pixels", 3)
        with model:  # as in a function called within the block
            loss = layers.softmax_with_cross_entropy(hidden, "label", reduction="mean")
    block = model.program.global_block()
    assert (block.var("pixels").dtype, block.var("label").dtype) == ("float32", "int64")
    assert loss.block is block
    with pytest.raises(AttributeTypeError, match="^fc: input must be a variable of a program, got"):
        layers.fc("pixels", 3)


def test_a_failed_layer_does_not_declare_inputs(everything):
    model = nn.Model()
    before = everything(model.program)
    with model, pytest.raises(AttributeValueError, match="^fc: size must be an int of at least 1"):
        layers.fc("pixels", 0)
    assert everything(model.program) == before
