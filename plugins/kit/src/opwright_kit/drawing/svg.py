"""One block as SVG: nodes and layers of nodes, with the shapes of the values between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from opwright_kit.drawing.boxes import NODE_WIDTH, SIDE_GAP, Box, Line, Picture, draw_boxes
from opwright_kit.drawing.graph import BlockGraph, Node
from opwright_kit.drawing.grouping import Layer, find_layers
from opwright_kit.drawing.layers import lay_out

_NODE_HEIGHT: Final = 60
_VARIABLE_HEIGHT: Final = 26
_HEAD_HEIGHT: Final = 42
_FRAME_GAP: Final = 14
_MARGIN: Final = 24
_COLUMNS: Final = {"title": 20, "line": 29, "label": 36}
"""Letters that fit, by the size of the text."""


@dataclass(frozen=True, slots=True)
class NodeText:
    """The label of an operator or layer: lines, and the color of its box ("" for none)."""

    title: str
    detail: str
    kernel: str = ""
    time: str = ""
    color: str = ""


NodeTexts = Callable[[Node], NodeText]
LayerTexts = Callable[[Layer], NodeText]


def node_id(block: int, node: Node, number: int) -> str:
    """Return the id of a node in the page: ``op-0-3`` for operator 3 of block 0."""
    return f"op-{block}-{node.index}" if node.kind == "op" else f"var-{block}-{number}"


def draw_block(graph: BlockGraph, text_of: NodeTexts, layer_text_of: LayerTexts) -> str:
    """Return the ``<svg>`` of a block."""
    return _Drawing(graph, text_of, layer_text_of).draw()


def shorten(text: str, length: int) -> str:
    """Shorten text to `length` letters by omitting its middle; both ends identify a name."""
    if len(text) <= length:
        return text
    head = (length - 1) * 2 // 3
    return f"{text[:head]}…{text[len(text) - (length - 1 - head) :]}"


class _Drawing:
    def __init__(self, graph: BlockGraph, text_of: NodeTexts, layer_text_of: LayerTexts) -> None:
        self._graph = graph
        self._text_of = text_of
        self._layer_text_of = layer_text_of
        self._sources = {a for a, _ in graph.edges}
        self._layers = {layer.members[0]: layer for layer in find_layers(graph)}

    def draw(self) -> str:
        picture = self._picture(self._outer_members(), _MARGIN, _MARGIN, is_outer=True)
        width, height = picture.width + 2 * _MARGIN, picture.height + 2 * _MARGIN
        return (
            f'<svg class="block" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" '
            f'aria-label="operators of block {self._graph.idx}">\n{picture.svg}</svg>\n'
        )

    def _outer_members(self) -> list[tuple[int, ...]]:
        """Return the nodes and layers of the block, each after the variables that it reads."""
        members: list[tuple[int, ...]] = []
        inside: set[int] = set()
        variables: list[tuple[int, ...]] = []
        for number, node in enumerate(self._graph.nodes):
            layer = self._layers.get(number)
            if node.kind == "given":
                variables.append((number,))
            elif layer is not None or number not in inside:
                members.append((number,) if layer is None else layer.members)
                inside.update(members[-1])
        return [*variables, *members]

    def _picture(
        self, members: Sequence[tuple[int, ...]], left: float, top: float, *, is_outer: bool
    ) -> Picture:
        lines = self._lines(members)
        insides = {own: self._inside(own) for own in members if is_outer and len(own) > 1}
        widths = [
            insides[own].width + 2 * _FRAME_GAP if own in insides else NODE_WIDTH for own in members
        ]
        layout = lay_out(widths, sorted(lines), SIDE_GAP)
        boxes = []
        for place, own in enumerate(members):
            targets = {b for a, b in lines if a == place and (a, b) not in layout.far}
            readers = {node for b in targets for node in members[b]}
            labels = self._labels(own, readers)
            inside = insides.get(own)
            if inside is None:
                boxes.append(self._node(own[0], labels))
            else:
                boxes.append(self._layer(self._layers[own[0]], inside, labels))
        return draw_boxes(boxes, lines, layout, left, top)

    def _inside(self, members: tuple[int, ...]) -> Picture:
        nodes = [(number,) for number in members]
        return self._picture(nodes, _FRAME_GAP, _HEAD_HEIGHT + _FRAME_GAP, is_outer=False)

    def _lines(self, members: Sequence[tuple[int, ...]]) -> dict[tuple[int, int], Line]:
        """Return the values passed between members; a member is a node or the nodes of a layer."""
        place = {number: at for at, own in enumerate(members) for number in own}
        lines: dict[tuple[int, int], Line] = {}
        for a, b in sorted(set(self._graph.edges)):
            if a not in place or b not in place or place[a] == place[b]:
                continue
            line = lines.setdefault((place[a], place[b]), Line())
            line.sources.append(self._id(a))
            line.targets.append(self._id(b))
            reads = [read for read in self._graph.nodes[b].reads if read.source == a]
            line.names += [f"{read.name} {read.type}".rstrip() for read in reads]
        return lines

    def _labels(self, own: tuple[int, ...], readers: set[int]) -> tuple[str, ...]:
        """Return the name and type of each value that readers take from a node or layer."""
        labels: dict[str, None] = {}
        for number in sorted(readers):
            for read in self._graph.nodes[number].reads:
                if read.source not in own:
                    continue
                of_variable = self._graph.nodes[read.source].kind != "op"
                # The box of a variable shows its name.
                labels[read.type if of_variable else _typed(read.name, read.type)] = None
        # An unread output is shown, too, as in a program that only initializes parameters.
        if len(own) == 1 and own[0] not in self._sources:
            node = self._graph.nodes[own[0]]
            if node.kind == "op" and node.role() != "update":
                labels |= {_typed(name, type): None for _, name, type in node.writes[:1]}
        return tuple(labels)

    def _id(self, number: int) -> str:
        return node_id(self._graph.idx, self._graph.nodes[number], number)

    def _layer(self, layer: Layer, inside: Picture, labels: tuple[str, ...]) -> Box:
        """Return a head with a frame below it; closing hides the frame and its contents."""
        width = inside.width + 2 * _FRAME_GAP
        height = _HEAD_HEIGHT + inside.height + 2 * _FRAME_GAP
        text = self._layer_text_of(layer)
        left = (width - NODE_WIDTH) / 2
        middle = _HEAD_HEIGHT / 2
        detail = escape(shorten(text.detail, _COLUMNS["line"]))
        begin = f'<g class="layer {layer.role}" id="layer-{self._graph.idx}-{layer.members[0]}"'
        end = (
            f'><rect class="frame" y="{middle:.0f}" width="{width:.0f}" '
            f'height="{height - middle:.0f}" rx="9"/>'
            f'<g class="inside">{inside.svg}</g>'
            f'<g class="head" transform="translate({left:.0f} 0)" tabindex="0" role="button" '
            f'aria-expanded="true"><title>{escape(layer.name)}: close or open</title>'
            f'<rect width="{NODE_WIDTH}" height="{_HEAD_HEIGHT}" rx="5"{_fill(text)}/>'
            f'<rect class="role" width="5" height="{_HEAD_HEIGHT}" rx="2"/>'
            f'<text class="name" x="14" y="18">{escape(shorten(text.title, 18))}</text>'
            f'<text class="time" x="{NODE_WIDTH - 28}" y="18">{escape(text.time)}</text>'
            f'<text class="sign" x="{NODE_WIDTH - 10}" y="18">−</text>'
            f'<text class="line" x="14" y="34">{detail}</text></g></g>\n'
        )
        return Box(begin, end, width, height, labels, _HEAD_HEIGHT)

    def _node(self, number: int, labels: tuple[str, ...]) -> Box:
        node = self._graph.nodes[number]
        begin = f'<g class="node {node.kind} {node.role()}" id="{self._id(number)}"'
        if node.kind != "op":
            name = escape(shorten(node.name, _COLUMNS["title"]))
            what = "given" if node.kind == "given" else "result"
            end = (
                f"><title>{what}: {escape(node.name)}</title>"
                f'<rect width="{NODE_WIDTH}" height="{_VARIABLE_HEIGHT}" rx="13"/>'
                f'<text class="name" x="{NODE_WIDTH / 2:.0f}" y="17">{name}</text></g>\n'
            )
            return Box(begin, end, NODE_WIDTH, _VARIABLE_HEIGHT, labels)
        text = self._text_of(node)
        title = escape(shorten(text.title, _COLUMNS["title"]))
        detail = escape(shorten(text.detail, _COLUMNS["line"]))
        end = (
            f' tabindex="0" role="button">'
            f'<rect width="{NODE_WIDTH}" height="{_NODE_HEIGHT}" rx="5"{_fill(text)}/>'
            f'<rect class="role" width="5" height="{_NODE_HEIGHT}" rx="2"/>'
            f'<text class="name" x="14" y="19">{title}</text>'
            f'<text class="index" x="{NODE_WIDTH - 8}" y="19">#{node.index}</text>'
            f'<text class="line" x="14" y="35">{detail}</text>'
            f'<text class="line" x="14" y="51">{escape(shorten(text.kernel, 22))}</text>'
            f'<text class="time" x="{NODE_WIDTH - 8}" y="51">{escape(text.time)}</text></g>\n'
        )
        return Box(begin, end, NODE_WIDTH, _NODE_HEIGHT, labels)


def _fill(text: NodeText) -> str:
    return f' style="fill:{text.color}"' if text.color else ""


def _typed(name: str, type: str) -> str:
    length = max(_COLUMNS["label"] - len(type) - 1, 8)
    return f"{shorten(name, length)} {type}".rstrip()
