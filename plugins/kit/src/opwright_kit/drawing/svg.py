"""One block as SVG: nodes in rows, edges with the shapes of what flows along them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Final

from opwright_kit.drawing.graph import BlockGraph, Node
from opwright_kit.drawing.layers import Layout, lay_out

NODE_WIDTH: Final = 216
_NODE_HEIGHT: Final = 60
_VARIABLE_HEIGHT: Final = 26
_SIDE_GAP: Final = 28
_ROW_GAP: Final = 30
_LABEL_HEIGHT: Final = 14
_MARGIN: Final = 24
_PORT_STEP: Final = 22
_COLUMNS: Final = {"title": 20, "line": 29, "label": 36}
"""Letters that fit, by the size of the text."""


@dataclass(frozen=True, slots=True)
class NodeText:
    """What is written on an operator: three lines, and the colour of its box ("" for none)."""

    title: str
    detail: str
    kernel: str
    time: str = ""
    colour: str = ""


def node_id(block: int, node: Node, number: int) -> str:
    """Return the id of a node in the page: ``op-0-3`` for operator 3 of block 0."""
    return f"op-{block}-{node.index}" if node.kind == "op" else f"var-{block}-{number}"


def draw_block(graph: BlockGraph, text_of: Callable[[Node], NodeText]) -> str:
    """Return the ``<svg>`` of a block."""
    return _Drawing(graph, text_of).draw()


def shorten(text: str, length: int) -> str:
    """Return at most `length` letters, the middle left out: both ends of a name tell it apart."""
    if len(text) <= length:
        return text
    head = (length - 1) * 2 // 3
    return f"{text[:head]}…{text[len(text) - (length - 1 - head) :]}"


class _Drawing:
    def __init__(self, graph: BlockGraph, text_of: Callable[[Node], NodeText]) -> None:
        self._graph = graph
        self._text_of = text_of
        self._layout: Layout = lay_out(len(graph.nodes), graph.edges, NODE_WIDTH, _SIDE_GAP)
        self._labels = self._find_labels()
        self._top, self._height = self._stack_rows()
        self._ports = self._find_ports()

    def draw(self) -> str:
        width = self._layout.width + 2 * _MARGIN
        edges = [self._edge(a, b) for a, b in sorted(set(self._graph.edges))]
        nodes = [self._node(number) for number in range(len(self._graph.nodes))]
        labels = [self._label(number) for number in range(len(self._graph.nodes))]
        title = f"operators of block {self._graph.idx}"
        return (
            f'<svg class="block" width="{width:.0f}" height="{self._height:.0f}" '
            f'viewBox="0 0 {width:.0f} {self._height:.0f}" aria-label="{title}">\n'
            f'<g class="edges">{"".join(edges)}</g>\n<g class="labels">{"".join(labels)}</g>\n'
            f'<g class="nodes">\n{"".join(nodes)}</g>\n</svg>\n'
        )

    def _find_labels(self) -> list[list[str]]:
        """What each node hands on along drawn edges, with its type, one line each."""
        labels: list[dict[str, None]] = [{} for _ in self._graph.nodes]
        for number, node in enumerate(self._graph.nodes):
            for read in node.reads:
                if read.source < 0 or (read.source, number) in self._layout.far:
                    continue
                of_variable = self._graph.nodes[read.source].kind != "op"
                # A variable's own box says its name.
                label = read.type if of_variable else _typed(read.name, read.type)
                labels[read.source][label] = None
        # What nobody reads, as in a program that only initialises.
        sources = {a for a, _ in self._graph.edges}
        for number, node in enumerate(self._graph.nodes):
            if number not in sources and node.kind == "op" and node.role() != "update":
                labels[number] = {_typed(name, type): None for _, name, type in node.writes[:1]}
        return [list(found) for found in labels]

    def _stack_rows(self) -> tuple[list[float], float]:
        heights = [0.0] * self._layout.n_rows
        n_labels = [0] * self._layout.n_rows
        for number, row in enumerate(self._layout.row):
            heights[row] = max(heights[row], self._node_height(number))
            n_labels[row] = max(n_labels[row], len(self._labels[number]))
        top, y = [], float(_MARGIN)
        for height, count in zip(heights, n_labels, strict=True):
            top.append(y)
            y += height + count * _LABEL_HEIGHT + _ROW_GAP
        return top, y - _ROW_GAP + _MARGIN

    def _find_ports(self) -> dict[tuple[int, int], float]:
        """Where an edge arrives, from the middle of its target: those from the left on the left."""
        arriving: dict[int, list[int]] = defaultdict(list)
        for a, b in set(self._graph.edges) - self._layout.far:
            arriving[b].append(a)
        ports = {}
        for b, sources in arriving.items():
            step = min(_PORT_STEP, 0.8 * NODE_WIDTH / len(sources))
            from_the_left = sorted((self._last_x(a, b), a) for a in sources)
            for place, (_, a) in enumerate(from_the_left):
                ports[a, b] = (place - (len(sources) - 1) / 2) * step
        return ports

    def _last_x(self, a: int, b: int) -> float:
        bends = self._layout.bends.get((a, b))
        return bends[-1][1] if bends else self._layout.x[a]

    def _node_height(self, number: int) -> float:
        return _NODE_HEIGHT if self._graph.nodes[number].kind == "op" else _VARIABLE_HEIGHT

    def _bottom(self, number: int) -> float:
        return self._top[self._layout.row[number]] + self._node_height(number)

    def _edge(self, a: int, b: int) -> str:
        layout = self._layout
        names = [r for r in self._graph.nodes[b].reads if r.source == a]
        title = "\n".join(f"{read.name} {read.type}".rstrip() for read in names)
        far = (a, b) in layout.far
        x, y = layout.x[a] + _MARGIN, self._bottom(a)
        path = [f"M{x:.0f} {y:.0f}"]
        if not far and self._labels[a]:
            y += len(self._labels[a]) * _LABEL_HEIGHT + 2
            path.append(f"V{y:.0f}")
        for row, bend in layout.bends.get((a, b), ()):
            path.append(_curve(x, y, bend + _MARGIN, self._top[row]))
            x, y = bend + _MARGIN, self._top[row] + _NODE_HEIGHT
            path.append(f"V{y:.0f}")
        end = layout.x[b] + _MARGIN + self._ports.get((a, b), 0.0)
        path.append(_curve(x, y, end, self._top[layout.row[b]]))
        ids = [node_id(self._graph.idx, self._graph.nodes[number], number) for number in (a, b)]
        return (
            f'<path class="{"far edge" if far else "edge"}" data-from="{ids[0]}" '
            f'data-to="{ids[1]}" d="{"".join(path)}"><title>{escape(title)}</title></path>\n'
        )

    def _label(self, number: int) -> str:
        x, y = self._layout.x[number] + _MARGIN, self._bottom(number) + 11
        return "".join(
            f'<text x="{x:.0f}" y="{y + index * _LABEL_HEIGHT:.0f}">{escape(label)}</text>\n'
            for index, label in enumerate(self._labels[number])
        )

    def _node(self, number: int) -> str:
        node = self._graph.nodes[number]
        x = self._layout.x[number] + _MARGIN - NODE_WIDTH / 2
        y = self._top[self._layout.row[number]]
        begin = (
            f'<g class="node {node.kind} {node.role()}" transform="translate({x:.0f} {y:.0f})" '
            f'id="{node_id(self._graph.idx, node, number)}"'
        )
        if node.kind != "op":
            name = escape(shorten(node.name, _COLUMNS["title"]))
            what = "given" if node.kind == "given" else "result"
            return (
                f"{begin}><title>{what}: {escape(node.name)}</title>"
                f'<rect width="{NODE_WIDTH}" height="{_VARIABLE_HEIGHT}" rx="13"/>'
                f'<text class="name" x="{NODE_WIDTH / 2:.0f}" y="17">{name}</text></g>\n'
            )
        text = self._text_of(node)
        title = escape(shorten(text.title, _COLUMNS["title"]))
        detail = escape(shorten(text.detail, _COLUMNS["line"]))
        fill = f' style="fill:{text.colour}"' if text.colour else ""
        return (
            f'{begin} tabindex="0" role="button">'
            f'<rect width="{NODE_WIDTH}" height="{_NODE_HEIGHT}" rx="5"{fill}/>'
            f'<rect class="role" width="5" height="{_NODE_HEIGHT}" rx="2"/>'
            f'<text class="name" x="14" y="19">{title}</text>'
            f'<text class="index" x="{NODE_WIDTH - 8}" y="19">#{node.index}</text>'
            f'<text class="line" x="14" y="35">{detail}</text>'
            f'<text class="line" x="14" y="51">{escape(shorten(text.kernel, 22))}</text>'
            f'<text class="time" x="{NODE_WIDTH - 8}" y="51">{escape(text.time)}</text></g>\n'
        )


def _typed(name: str, type: str) -> str:
    length = max(_COLUMNS["label"] - len(type) - 1, 8)
    return f"{shorten(name, length)} {type}".rstrip()


def _curve(x: float, y: float, to_x: float, to_y: float) -> str:
    if abs(x - to_x) < 0.5:
        return f"V{to_y:.0f}"
    half = (y + to_y) / 2
    return f"C{x:.0f} {half:.0f} {to_x:.0f} {half:.0f} {to_x:.0f} {to_y:.0f}"
