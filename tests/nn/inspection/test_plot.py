"""Drawings of networks by layer: every layer once, in order, with the tensors in between."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import (
    AttributeTypeError,
    AttributeValueError,
    MissingRequirementError,
    ProgramError,
)

SVG = "{http://www.w3.org/2000/svg}"


def two_inputs():
    model = nn.Model()
    left = model.fc_layer(model.input("img", [None, 8]), 4, activation="relu", name="left")
    right = model.fc_layer("more", 4, name="right")
    out = model.fc_layer(model.concat([left, right], name="both"), 2, name="head")
    loss = model.softmax_with_cross_entropy(out, "label", reduction="mean", name="loss")
    model.minimize(loss, nn.optimizer.Adam(0.1))
    return model


def named_edges(drawing):
    return {(drawing.layers[a].name, drawing.layers[b].name) for a, b in drawing.edges}


def test_layers_are_boxes_and_their_inputs_are_edges():
    drawing = two_inputs().plot()
    assert [layer.name for layer in drawing.layers if layer.is_input] == ["img", "more", "label"]
    assert [layer.name for layer in drawing.layers if not layer.is_input] == [
        "left",
        "right",
        "both",
        "head",
        "loss",
    ]
    assert named_edges(drawing) == {
        ("img", "left"),
        ("more", "right"),
        ("left", "both"),
        ("right", "both"),
        ("both", "head"),
        ("head", "loss"),
        ("label", "loss"),
    }


def test_a_layer_shows_operators_output_and_parameters():
    drawing = two_inputs().plot()
    lines = {layer.name: layer.lines for layer in drawing.layers}
    assert lines["img"] == ("float32[?, 8]",)
    assert lines["left"] == ("fc + relu", "float32[?, 4]", "36 parameters")
    assert lines["right"][2] == "? parameters"  # the first batch determines its size
    assert lines["both"] == ("concat", "float32[?, 8]")


def test_the_first_batch_determines_the_unknown_sizes():
    model = two_inputs()
    model.fill("img", np.ones((3, 8), np.float32))
    model.fill("more", np.ones((3, 5), np.float32))
    model.fill("label", np.zeros((3, 1), np.int64))
    model.run()
    lines = {layer.name: layer.lines for layer in model.plot().layers}
    assert lines["right"][2] == "24 parameters"


def test_shared_parameters_are_counted_once_and_programs_can_be_drawn():
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        x = nn.layers.data("x", shape=[None, 4])
        attr = nn.ParamAttr(name="shared")
        h = nn.layers.fc(x, 4, bias=False, param_attr=attr, name="a")
        nn.layers.fc(h, 4, bias=False, param_attr=attr, name="b")
    before = str(main)
    lines = {layer.name: layer.lines for layer in nn.plot(main).layers}
    assert lines["a"][2:] == ("16 parameters",)
    assert lines["b"][2:] == ()
    assert str(main) == before


def test_the_drawing_is_an_svg_with_the_text_of_every_box(tmp_path):
    drawing = two_inputs().plot()
    path = drawing.save(tmp_path / "net.svg")
    drawing.save(path)  # an old file is replaced
    root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    texts = [element.text for element in root.iter(f"{SVG}text")]
    for layer in drawing.layers:
        assert layer.name in texts
        assert set(layer.lines) <= set(texts)
    assert len(list(root.iter(f"{SVG}path"))) == len(drawing.edges)
    assert drawing._repr_svg_() == path.read_text(encoding="utf-8")
    width, height = float(root.get("width")), float(root.get("height"))
    assert width > 400  # two layers side by side
    assert height > 300


def test_names_are_escaped():
    model = nn.Model()
    model.relu(model.input("a<b&c", [None, 2]))
    root = ElementTree.fromstring(model.plot().svg)
    assert "a<b&c" in [element.text for element in root.iter(f"{SVG}text")]


def test_a_skip_connection_over_many_layers_is_drawn():
    model = nn.Model()
    first = h = model.fc_layer(model.input("x", [None, 4]), 4, name="first")
    for _ in range(12):
        h = model.fc_layer(h, 4)
    model.add(first, h, name="last")
    drawing = model.plot()
    assert ("first", "last") in named_edges(drawing)
    assert drawing.svg.count("<path") == len(drawing.edges)


def test_an_invalid_drawing_or_path_is_refused(tmp_path):
    with pytest.raises(ProgramError, match="plot: there must be a layer to draw, got an empty"):
        nn.Model().plot()
    with pytest.raises(AttributeTypeError, match="plot: model must be a Model or a Program, got 3"):
        nn.plot(3)
    with pytest.raises(AttributeTypeError, match="got 'modell'; did you mean 'model'"):
        nn.plot(modell=3)
    with pytest.raises(AttributeValueError, match=r"must end with .svg, got 'net.png'"):
        two_inputs().plot().save("net.png")


def test_without_the_kit_the_error_names_the_missing_plugin(monkeypatch):
    monkeypatch.setenv("OPWRIGHT_PLUGINS", "std,cpu")
    text = r"kit\[DrawnLayer\]: no plugin provides this annex\n  .* OPWRIGHT_PLUGINS: .*'kit'"
    with (
        ow.context_guard(ow.Context.discover()),
        pytest.raises(MissingRequirementError, match=text),
    ):
        two_inputs().plot()
