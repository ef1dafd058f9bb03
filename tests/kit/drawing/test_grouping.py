"""On the page, the operators of a layer form a group that can be collapsed into one box."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

import opwright as ow
from opwright_kit.drawing.graph import build_graphs
from opwright_kit.drawing.grouping import find_layers
from opwright_kit.drawing.page import write_page
from opwright_nn import layers, optimizer


def build_step():
    """Return the block of a training step: two convolutions with activations, and a product."""
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        x = layers.data("x", shape=[None, 1, 8, 8])
        y = layers.data("y", shape=[None, 1], dtype="int64")
        h = layers.conv2d(x, filters=2, kernel=3, activation="relu")
        h = layers.conv2d(h, filters=2, kernel=3, activation="relu")
        scores = layers.fc(layers.flatten(h), size=4)
        loss = layers.mean(layers.softmax_with_cross_entropy(scores, y))
        optimizer.SGD(0.1).minimize(loss)
    return main.global_block()


@pytest.fixture(scope="module")
def graph():
    block = build_step()
    return build_graphs(block.ops, block)[0]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    write_page(ow.Network(build_step()), path)
    return path.read_text(encoding="utf-8")


def test_operators_of_a_layer_are_grouped_by_role(graph):
    found = {
        (layer.name, layer.role): [graph.nodes[n].name for n in layer.members]
        for layer in find_layers(graph)
    }
    assert found["conv2d_0", "forward"] == ["conv2d", "relu"]
    assert found["conv2d_1", "forward"] == ["conv2d", "relu"]
    assert "relu_grad" in found["conv2d_1", "gradient"]
    assert found["conv2d_0", "update"] == ["sgd", "sgd"]
    # The missing operator reads the output of fc_0, but belongs to the gradient of the loss.
    assert "softmax_with_cross_entropy_grad" not in found["fc_0", "gradient"]


def test_paths_between_layers_have_no_cycles():
    """A weight is used before and after another layer; a single group would have a cycle."""
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        block = main.global_block()
        block.create_var("x", [3, 3])
        block.create_parameter("tied_0_w_param", [3, 3])
        names = iter("abcdef")
        source = "x"
        for weight in ("tied_0_w_param", "other_0_x", "tied_0_w_param"):
            for _ in range(2):
                if block.find_var(weight) is None:
                    block.create_parameter(weight, [3, 3])
                written = f"{weight[:-1]}_{next(names)}"
                block.append_op("matmul", {"x": source, "y": weight}, {"out": written})
                source = written
    found = find_layers(build_graphs(block.ops, block)[0])
    assert [layer.name for layer in found] == ["tied_0", "other_0", "tied_0"]


def test_a_layer_named_by_its_user_is_found_by_its_parameters():
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        block = main.global_block()
        block.create_var("x", [2, 3])
        block.create_parameter("hidden_w_param", [3, 3])
        block.create_parameter("hidden_b_param", [3])
        block.append_op("matmul", {"x": "x", "y": "hidden_w_param"}, {"out": "a"})
        block.append_op("add", {"x": "a", "y": "hidden_b_param"}, {"out": "b"})
        block.append_op("sigmoid", {"x": "b"}, {"out": "c"})
    (layer,) = find_layers(build_graphs(block.ops, block)[0])
    assert (layer.name, len(layer.members)) == ("hidden", 2)


def test_every_layer_has_a_focusable_header_and_states_its_open_and_closed_heights(graph, page):
    heads = re.findall(r'<g class="head"[^>]*>', page)
    assert len(heads) == len(find_layers(graph)) > 4
    for head in heads:
        assert 'tabindex="0" role="button" aria-expanded="true"' in head
    for heights in re.findall(r'<g class="layer [^>]*data-heights="(\d+ \d+)"', page):
        opened, closed = map(int, heights.split())
        assert closed < opened / 2


def test_lines_between_layers_name_the_operators_at_both_ends(page):
    pairs = re.findall(r'data-from="([^"]*)" data-to="([^"]*)"', page)
    ids = set(re.findall(r'<g class="node [^>]*id="([^"]*)"', page))
    assert pairs
    for sources, targets in pairs:
        assert len(sources.split()) == len(targets.split()) > 0
        assert {*sources.split(), *targets.split()} <= ids


def test_the_page_contains_the_row_heights_of_layers(page):
    tops = re.findall(r'<g class="rows" data-tops="([^"]+)"', page)
    rows = [list(map(int, text.split())) for text in tops]
    assert all(row == sorted(row) and len(row) > 1 for row in rows)


def test_the_panel_is_hidden_until_an_operator_is_selected(page):
    (panel,) = re.findall(r"<aside[^>]*>.*?</aside>", page)
    assert " hidden>" in panel
    assert panel.endswith("></aside>")
    assert "#details[hidden] { display: none; }" in page


def test_narrow_screens_show_details_below_and_touch_screens_have_large_buttons(page):
    narrow = page.split("@media (max-width: 700px) {")[1].split("\n}")[0]
    assert "main { flex-direction: column; }" in narrow
    assert re.search(r"#details \{ width: auto; max-height: \d+%", narrow)
    touch = page.split("@media (pointer: coarse) {")[1].split("\n}")[0]
    assert "min-height: 40px" in touch


def test_only_the_drawing_is_wider_than_a_phone_screen():
    """The drawing scrolls within its own box, so the page does not scroll sideways."""
    css = files("opwright_kit.drawing").joinpath("page.css").read_text(encoding="utf-8")
    assert re.search(r"#canvas \{[^}]*overflow: auto", css)
    before = css.split("@media")[0]
    widths = {
        selector.strip(): int(width)
        for selector, width in re.findall(r"([^{}]+)\{[^}]*?[ ;]width: (\d+)px", before)
    }
    wide = {selector for selector, width in widths.items() if width > 380}
    assert wide == {"#details"}  # full width, by the rule for narrow screens


def test_the_page_defines_every_class_and_id_that_the_script_uses(page):
    script = page.rsplit("<script>", 1)[1]
    for wanted in re.findall(r'getElementById\("([\w-]+)"\)', script):
        assert f'id="{wanted}"' in page, wanted
    style = page.split("<style>")[1].split("</style>")[0]
    for name in ("closed", "selected", "near", "missed", "shown"):
        assert f'"{name}"' in script
        assert f".{name}" in style


def test_a_page_without_layers_has_no_button_for_layers(tmp_path):
    path = tmp_path / "page.html"
    write_page(ow.Network([ow.Operator("relu", x="a", out="b")]), path)
    assert 'id="layers"' not in path.read_text(encoding="utf-8").split("<script>")[0]
