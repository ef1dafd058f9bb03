"""Draws a network by layer as one SVG: boxes from top to bottom, and the values between them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

from opwright.errors import AttributeValueError
from opwright.plugin import path_of
from opwright_kit.drawing.boxes import SIDE_GAP, Box, Line, draw_boxes
from opwright_kit.drawing.layers import lay_out
from opwright_kit.drawing.svg import shorten
from opwright_kit.drawing.writing import write_whole

_MARGIN: Final = 16
_TITLE_HEIGHT: Final = 26
_LINE_HEIGHT: Final = 16
_WIDTH: Final = 260
_TITLE_LETTERS: Final = 29
_LINE_LETTERS: Final = 38

_STYLE: Final = """
svg.layers { background: #ffffff; }
svg.layers text { font: 11px system-ui, "DejaVu Sans", sans-serif; fill: #57606a; }
svg.layers .name { font-size: 13px; font-weight: 600; fill: #1f2328; }
svg.layers rect { fill: #ffffff; stroke: #8c959f; }
svg.layers .given rect { fill: #eaeef2; }
svg.layers .role { fill: #4078c0; stroke: none; }
svg.layers .edge { fill: none; stroke: #afb8c1; stroke-width: 1.3; }
svg.layers .far { stroke-dasharray: 5 4; }
"""


class DrawnLayer(NamedTuple):
    """A box: a layer, or an input.

    Attributes
    ----------
    name : str
        Its title.
    lines : tuple of str
        The text below it, such as operators, shape and parameters.
    is_input : bool
        Whether it is an input instead of a layer.
    """

    name: str
    lines: tuple[str, ...]
    is_input: bool = False


class LayerDrawing:
    """A drawing of a network's layers; a notebook shows it if it is the last line of a cell.

    Attributes
    ----------
    svg : str
        The complete drawing.
    layers : tuple of DrawnLayer
        Its boxes.
    edges : tuple of (int, int)
        Pairs of indices, from one box to a later box.
    """

    def __init__(self, layers: Iterable[DrawnLayer], edges: Iterable[tuple[int, int]]) -> None:
        self.layers = tuple(layers)
        self.edges = tuple(sorted(set(edges)))
        self.svg = _draw(self.layers, self.edges)

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"LayerDrawing({len(self.layers)} boxes, {len(self.edges)} edges)"

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the drawing to an SVG file, which any browser shows; an old file is replaced.

        Raises
        ------
        AttributeValueError
            The name does not end with ``.svg``.
        OSError
            The file cannot be written; an existing file is unchanged.
        """
        target = Path(path_of("LayerDrawing.save", path, "file"))
        if target.suffix.lower() != ".svg":
            raise AttributeValueError(
                f"LayerDrawing.save: path must end with .svg, got {os.fspath(path)!r}; browsers "
                "and drawing programs open SVG, and convert it to PNG or PDF"
            )
        write_whole(target, self.svg, force=True)
        return target


def _draw(layers: Sequence[DrawnLayer], edges: Sequence[tuple[int, int]]) -> str:
    layout = lay_out([_WIDTH] * len(layers), edges, SIDE_GAP)
    lines = {(a, b): Line([str(a)], [str(b)], [layers[a].name]) for a, b in edges}
    picture = draw_boxes([_box(layer) for layer in layers], lines, layout, _MARGIN, _MARGIN)
    width, height = picture.width + 2 * _MARGIN, picture.height + 2 * _MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="layers" role="img" '
        f'aria-label="layers of a network" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}">\n<style>{_STYLE}</style>\n{picture.svg}</svg>\n'
    )


def _box(layer: DrawnLayer) -> Box:
    height = _TITLE_HEIGHT + len(layer.lines) * _LINE_HEIGHT
    texts = "".join(
        f'<text x="14" y="{_TITLE_HEIGHT + 9 + number * _LINE_HEIGHT}">'
        f"{escape(shorten(line, _LINE_LETTERS))}</text>"
        for number, line in enumerate(layer.lines)
    )
    stripe = "" if layer.is_input else f'<rect class="role" width="5" height="{height}" rx="2"/>'
    whole = "\n".join([layer.name, *layer.lines])
    begin = f'<g class="{"given" if layer.is_input else "layer"}"'
    end = (
        f"><title>{escape(whole)}</title>"
        f'<rect width="{_WIDTH}" height="{height}" rx="5"/>{stripe}'
        f'<text class="name" x="14" y="19">{escape(shorten(layer.name, _TITLE_LETTERS))}</text>'
        f"{texts}</g>\n"
    )
    return Box(begin, end, _WIDTH, height)
