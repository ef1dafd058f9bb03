"""A notebook shows a program as a page in a frame, or as text if it cannot be drawn."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

import opwright as ow
from opwright_kit.drawing import notebook

EVIL = '"></iframe><script>alert(1)</script>'


@pytest.fixture
def program():
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        x = main.global_block().create_var("x", [None, 3], is_data=True)
        ow.ops.exp(ow.ops.softmax(x))
        yield main


class Elements(HTMLParser):
    def __init__(self, html):
        super().__init__()
        self.found = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def test_a_program_shows_its_page_in_one_frame(program, tmp_path):
    program.global_block().append_op("relu", {"x": "x"}, {"out": EVIL})
    ((tag, attrs),) = Elements(program._repr_html_()).found
    assert tag == "iframe"
    assert attrs["sandbox"] == "allow-scripts"
    path = tmp_path / "page.html"
    ow.Network(program.global_block()).graph_html(path, title="program")
    assert attrs["srcdoc"] == path.read_text(encoding="utf-8")


def test_an_empty_program_is_shown_as_text():
    assert ow.Program()._repr_html_() is None


def test_a_program_with_too_many_operators_is_shown_as_text(program, monkeypatch):
    monkeypatch.setattr(notebook, "_MAX_OPERATORS", 1)
    assert program._repr_html_() is None


def test_without_the_kit_a_program_is_shown_as_text(program, monkeypatch):
    monkeypatch.setenv("OPWRIGHT_PLUGINS", "std")
    with ow.context_guard(ow.Context.discover()):
        assert program._repr_html_() is None
