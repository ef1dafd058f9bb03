"""Laws of a Model's layer methods: each is its layer function, with inputs that have names."""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Iterable
from pathlib import Path

import pytest

import opwright_nn as nn
from opwright.errors import AttributeTypeError, AttributeValueError
from opwright_nn import layers
from opwright_nn.model.layer_methods import METHOD_NAMES
from opwright_nn.model.programs import Input

sys.path.insert(0, str(Path(__file__).parent))

from layer_stub import STUB, render

INPUT_NAMES = ("x", "logits", "index")
DEFAULTS = {("concat", "axis"): 1}
ANNOTATIONS = {
    "ow.Variable": "Input",
    "ow.Variable | None": "Input | None",
    "Sequence[ow.Variable]": "Iterable[Input]",
}


BEGIN_WITH_A_FUNCTION = {"scan", "while_loop"}
"""Layer functions that append what a function appends; their variables come behind it."""


def method_of(layer):
    return getattr(nn.Model, METHOD_NAMES[layer])


def test_each_layer_function_has_its_method():
    assert {*METHOD_NAMES, "data"} == {*layers.__all__}
    assert all(callable(method_of(layer)) for layer in METHOD_NAMES)
    assert METHOD_NAMES["fc"] == "fc_layer"


@pytest.mark.parametrize("layer", METHOD_NAMES)
def test_a_method_has_the_parameters_of_its_layer_function(layer):
    expected = [
        (
            "input" if name in INPUT_NAMES else name,
            parameter.kind,
            DEFAULTS.get((layer, name), parameter.default),
            ANNOTATIONS.get(parameter.annotation, parameter.annotation),
        )
        for name, parameter in inspect.signature(getattr(layers, layer)).parameters.items()
    ]
    signature = inspect.signature(method_of(layer))
    first, *others = signature.parameters.values()
    assert first.name == "self"
    assert [(p.name, p.kind, p.default, p.annotation) for p in others] == expected
    starts_with_function = others[0].annotation.startswith("Callable")
    assert starts_with_function == (layer in BEGIN_WITH_A_FUNCTION)
    assert starts_with_function or others[0].annotation in ANNOTATIONS.values()
    returned = inspect.signature(getattr(layers, layer)).return_annotation
    assert signature.return_annotation == returned


@pytest.mark.parametrize("layer", METHOD_NAMES)
def test_a_method_is_documented_and_typed_as_if_it_were_written_out(layer):
    method = method_of(layer)
    text = inspect.getdoc(method)
    assert text.startswith(inspect.getdoc(getattr(layers, layer)).split("\n\n")[0])
    assert f"`layers.{layer}`" in text
    (_, first), *_ = typing.get_type_hints(method).items()
    assert first in (Input, Iterable[Input]) or layer in BEGIN_WITH_A_FUNCTION
    assert method.__qualname__ == f"LayerMethods.{METHOD_NAMES[layer]}"


def test_a_parameter_that_takes_a_name_is_documented_by_its_own_name():
    text = inspect.getdoc(nn.Model.softmax_with_cross_entropy)
    assert "\ninput : Variable or str, [..., classes]\n" in text
    assert "\nlabel : Variable or str\n" in text
    assert "\ninput, kernel, strides" in inspect.getdoc(nn.Model.avg_pool2d)


def test_the_stub_that_type_checkers_read_is_current():
    assert STUB.read_text() == render(), "python tests/nn/model/layer_stub.py writes it"


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
def test_a_method_appends_what_its_layer_function_appends(layer, args, options):
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
        (lambda m: m.fc_layer(3, 4), AttributeTypeError, "^fc_layer: input must be a variable"),
        (lambda m: m.silu(None), AttributeTypeError, "^silu: input must be a variable"),
        (lambda m: m.embedding("", [9, 4]), AttributeValueError, "^embedding: input must be a str"),
        (lambda m: m.concat(["x", 3]), AttributeTypeError, r"^concat: input\[1\] must be a var"),
        (lambda m: m.concat("x"), AttributeTypeError, r"^concat: .*; write concat\(input=\[a, b"),
        (lambda m: m.cond(1, None, None), AttributeTypeError, "^cond: condition must be a var"),
    ],
)
def test_a_wrong_argument_is_reported_with_the_name_of_the_method(call, error, rule, everything):
    model = nn.Model()
    before = everything(model.program)
    with pytest.raises(error, match=rule):
        call(model)
    assert everything(model.program) == before


def test_the_output_of_a_branch_that_is_chosen_by_name_is_computed():
    model = nn.Model()
    x = model.input("x", [2])
    out = model.cond("condition", lambda: model.tanh(x), lambda: model.relu(x))
    assert model.predict(out, x=[-1.0, 2.0], condition=[False]).tolist() == [0.0, 2.0]
