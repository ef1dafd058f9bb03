"""A program within a notebook: its page in a frame, isolated from the notebook's styles."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from opwright.device import HOST_DEVICE
from opwright_kit.drawing.graph import build_graphs
from opwright_kit.drawing.page import count_operators, make_html
from opwright_kit.drawing.times import StepTimes

if TYPE_CHECKING:
    from opwright import Program

_MAX_OPERATORS: Final = 1000
"""More operators would make the notebook file large; `Network.graph_html` draws any number."""

_HEIGHT: Final = 600
"""Pixels."""


def frame_program(program: Program) -> str | None:
    """Return the page of `write_page` as an HTML element, or None for 0 or too many operators.

    The scripts of the page cannot access the notebook, because the frame has a separate origin.
    """
    block = program.global_block()
    graphs = build_graphs(block.ops, block)
    if not 0 < count_operators(graphs) <= _MAX_OPERATORS:
        return None
    page = make_html(graphs, "program", HOST_DEVICE, StepTimes(None))
    return (
        f'<iframe sandbox="allow-scripts" title="program" width="100%" height="{_HEIGHT}" '
        f'style="border: 0" srcdoc="{escape(page)}"></iframe>'
    )
