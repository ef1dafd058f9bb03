"""``network.graph_html`` shows every operator once, and loads no external resources."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import opwright as ow
from opwright.errors import AttributeValueError, DeviceNotFoundError, FileTakenError, ProgramError

VOID = {"meta", "input", "br"}
EVIL = '</script><script>alert(1)</script><img src="http://evil.example/x.png">&"\''


class Page(HTMLParser):
    """Parses a page into elements with attributes and text; all tags must be closed."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.open, self.texts, self.data = [], [], [], ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        if self.open and self.open[-1] == "script":
            self.data = self.data or text
        elif self.open and self.open[-1] != "style":
            self.texts.append(text)

    def nodes(self, kind):
        """Return the ids of nodes whose kind (``op``, ``given``, ``fetch``) or role is `kind`."""
        classes = [(a.get("class", "").split(), a) for tag, a in self.elements if tag == "g"]
        return [a["id"] for names, a in classes if "node" in names and kind in names]

    def details(self):
        return json.loads(self.data)


@pytest.fixture
def draw(tmp_path):
    """Draw a network and read the page."""

    def drawn(network, **options):
        path = tmp_path / "page.html"
        network.graph_html(path, force=True, **options)
        return Page(path.read_text(encoding="utf-8"))

    return drawn


@pytest.fixture(autouse=True)
def programs():
    """Provide new default programs for each test."""
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        yield main


def _built(programs, build):
    build(programs.global_block())
    return ow.Network(programs.global_block())


def _layers(block, n=2, name="x"):
    h = block.create_var(name, [-1, 3])
    w = block.create_parameter("w", [3, 3])
    for _ in range(n):
        h = ow.ops.sigmoid(ow.ops.matmul(h, w))
    return h


def test_every_operator_is_on_the_page_once(programs, draw):
    network = _built(programs, lambda block: _layers(block, n=3))
    page = draw(network)
    ids = page.nodes("op")
    assert sorted(ids) == [f"op-0-{i}" for i in range(6)]
    assert sorted(page.details()["operators"]) == sorted(ids)


def test_a_gradient_program_shows_the_roles_of_its_operators(programs, draw):
    block = programs.global_block()
    loss = ow.ops.mean(_layers(block))
    ((w, gradient),) = ow.append_backward([loss], parameters=["w"])
    rate = block.create_var("rate", [1], persistable=True)
    block.append_op("sgd", {"param": w, "grad": gradient, "learning_rate": rate})
    page = draw(ow.Network(block), fetches=[loss.name])
    assert len(page.nodes("op")) == len(block.ops)
    assert len(page.nodes("gradient")) > 3
    assert page.nodes("update") == [f"op-0-{len(block.ops) - 1}"]
    assert len(page.nodes("fetch")) == 1


def test_the_page_loads_no_external_resources(programs, draw):
    page = draw(_built(programs, _layers))
    for tag, attrs in page.elements:
        assert tag not in {"link", "iframe", "object", "embed", "base", "img", "image", "use"}
        assert not {"src", "href", "xlink:href", "srcset", "data"} & attrs.keys()
    assert any("default-src 'none'" in a.get("content", "") for _, a in page.elements)


def test_names_appear_only_as_text(programs, draw):
    block = programs.global_block()
    h = block.create_var(EVIL, [2], persistable=True)
    block.append_op("sigmoid", {"x": h}, {"out": "out" + EVIL})
    page = draw(ow.Network(block), title=EVIL, fetches=["out" + EVIL])
    assert [tag for tag, _ in page.elements].count("script") == 2
    assert "img" not in [tag for tag, _ in page.elements]
    assert EVIL in page.texts
    (read,) = page.details()["operators"]["op-0-0"]["inputs"]
    assert read["name"] == EVIL


def test_shapes_are_shown_on_edges_and_parameters_on_their_operators(programs, draw):
    page = draw(_built(programs, _layers))
    labels = [text for text in page.texts if text.endswith("float32[?, 3]")]
    assert len(labels) >= 3
    assert "w" in page.texts
    first = page.details()["operators"]["op-0-0"]
    assert [(r["name"], r["kind"], r["from"]) for r in first["inputs"]] == [
        ("x", "value", ""),
        ("w", "parameter", ""),
    ]
    assert page.details()["operators"]["op-0-1"]["inputs"][0]["from"] == "op-0-0"


def test_an_unread_result_is_placed_below_the_operator_that_writes_it(programs, draw):
    block = programs.global_block()
    block.create_var("x", [2, 3])
    block.append_op("sigmoid", {"x": "x"}, {"out": "unread"})
    assert "unread float32[2, 3]" in draw(ow.Network(block)).texts


def test_details_explain_the_kernel_for_each_device(programs, draw):
    details = draw(_built(programs, _layers)).details()
    assert details["devices"][0] == "cpu"
    op = details["operators"]["op-0-1"]
    answer = details["explanations"][op["kernels"][0]]
    chosen = ow.explain("sigmoid", dtype="float32").chosen
    assert (answer["device"], answer["dtype"]) == ("cpu", "float32")
    assert [c["library"] for c in answer["candidates"] if c["verdict"] == "chosen"] == [
        chosen.library
    ]
    assert details["types"]["sigmoid"]["comment"] == ow.op_proto("sigmoid").comment.strip()


def test_a_profile_colors_operators_and_fused_operators_refer_to_the_first_operator(programs, draw):
    network = _built(programs, _layers)
    scope = ow.Scope()
    scope.var("w").set(np.ones((3, 3), np.float32))
    end = network.ops[-1].output("out")[0]
    call = network.compile(["x"], [end], scope=scope)
    page = draw(network, profile=call.profile({"x": np.ones((2, 3), np.float32)}, n=1))
    heat = [a["style"] for tag, a in page.elements if tag == "rect" and "style" in a]
    assert len(heat) == 4
    assert all(re.fullmatch(r"fill:#[0-9a-f]{6}", style) for style in heat)
    assert page.texts.count("with #0") == 1
    (step,) = page.details()["operators"]["op-0-1"]["steps"]
    assert step["operators"] == ["op-0-0", "op-0-1"]


def test_control_flow_blocks_can_be_closed_and_are_inside_their_operator(programs, draw):
    block = programs.global_block()
    block.create_var("p", [1], "bool")
    block.create_var("x", [-1])
    bodies = []
    for op_type in ("square", "negative"):
        bodies.append(programs.create_block())
        bodies[-1].append_op(op_type, {"x": "x"}, {"out": "y"})
        programs.rollback()
    attrs = {"true_block": bodies[0], "false_block": bodies[1]}
    attrs |= {"true_outputs": ["y"], "false_outputs": ["y"]}
    block.append_op("cond", {"condition": "p"}, {"out": ["out"]}, attrs)
    page = draw(ow.Network(block))
    ids = page.nodes("op")
    assert ids == ["op-0-0", "op-1-0", "op-2-0"]
    blocks = [a["id"] for tag, a in page.elements if tag == "details"]
    assert blocks == ["block-0", "block-1", "block-2"]
    assert "block 1: true_block of cond #0 in block 0, 1 operator" in page.texts
    assert page.nodes("control") == ["op-0-0"]


def test_a_deep_network_of_600_operators_is_drawn_completely(programs, draw):
    network = _built(programs, lambda block: _layers(block, n=300))
    assert len(draw(network).nodes("op")) == 600


def test_operators_without_a_block_are_drawn_without_shapes(draw):
    page = draw(ow.Network([ow.Operator("relu", x="a", out="b")]))
    assert len(page.nodes("op")) == 1


def test_an_existing_file_is_replaced_only_with_force(programs, tmp_path):
    network = _built(programs, _layers)
    path = tmp_path / "page.html"
    path.write_text("mine")
    with pytest.raises(FileTakenError, match=r"must not exist yet, got .*page\.html; .* --force"):
        network.graph_html(path)
    assert path.read_text() == "mine"
    drawn = network.graph_html(path, force=True)
    assert (drawn.operators, drawn.blocks, drawn.size_bytes) == (4, 1, path.stat().st_size)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"device": "cud"}, DeviceNotFoundError, "cud: no device of this name"),
        ({"path": "missing/page.html"}, FileNotFoundError, "the folder must exist, got .*missing"),
        ({"path": "."}, IsADirectoryError, "a file to write, got the folder"),
    ],
)
def test_bad_arguments_raise_and_do_not_write_a_file(programs, tmp_path, options, error, message):
    network = _built(programs, _layers)
    path = tmp_path / options.pop("path", "page.html")
    with pytest.raises(error, match=message):
        network.graph_html(path, **options)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_network_is_not_drawn(tmp_path):
    with pytest.raises(ProgramError, match="an operator to draw, got an empty network"):
        ow.Network([]).graph_html(tmp_path / "page.html")


def test_a_failed_write_leaves_the_old_page(programs, tmp_path, monkeypatch):
    network = _built(programs, _layers)
    path = tmp_path / "page.html"
    path.write_text("mine")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        network.graph_html(path, force=True)
    assert path.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [path]


def test_an_invalid_file_path_is_refused():
    network = ow.Network([ow.Operator("tanh", x="x", out="y")])
    with pytest.raises(AttributeValueError, match=r"graph_html: path must have .*, got 'a\\x00b'"):
        network.graph_html("a\0b")
