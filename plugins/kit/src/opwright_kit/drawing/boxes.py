"""Boxes in rows with lines between them, as SVG: a block of operators, or the inside of a layer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final

from opwright_kit.drawing.layers import Layout

NODE_WIDTH: Final = 216
SIDE_GAP: Final = 28
_ROW_GAP: Final = 30
_LABEL_HEIGHT: Final = 14
_PORT_STEP: Final = 22


@dataclass(frozen=True, slots=True)
class Box:
    """A box that can be placed in a row.

    Attributes
    ----------
    begin, end : str
        Its SVG, drawn from its own corner; the place goes between the two, as attributes.
    width, height : float
    labels : tuple of str
        Lines below it.
    closed_height : float
        The height of the closed box, if it can be closed; otherwise the height of the box.
    """

    begin: str
    end: str
    width: float
    height: float
    labels: tuple[str, ...] = ()
    closed_height: float = 0.0


@dataclass(slots=True)
class Line:
    """The values passed from one box to another: pairs of node ids, and typed value names."""

    sources: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Picture:
    """SVG elements with their size."""

    svg: str
    width: float
    height: float


def draw_boxes(
    boxes: Sequence[Box],
    lines: Mapping[tuple[int, int], Line],
    layout: Layout,
    left: float,
    top: float,
) -> Picture:
    """Draw boxes and lines at the positions given by their layout.

    `left` and `top` are the upper left corner of the drawing in SVG coordinates.
    """
    return _Drawing(boxes, lines, layout, left, top).draw()


class _Drawing:
    def __init__(
        self,
        boxes: Sequence[Box],
        lines: Mapping[tuple[int, int], Line],
        layout: Layout,
        left: float,
        top: float,
    ) -> None:
        self._boxes = boxes
        self._lines = lines
        self._layout = layout
        self._x = [left + x for x in self._layout.x]
        self._left, self._begin = left, top
        self._heights = [0.0] * self._layout.n_rows
        for box, row in zip(boxes, self._layout.row, strict=True):
            self._heights[row] = max(self._heights[row], box.height)
        self._top, self._end = self._stack_rows(top)
        self._ports = self._find_ports()

    def draw(self) -> Picture:
        numbers = range(len(self._boxes))
        tops = " ".join(f"{y:.0f}" for y in (*self._top, self._end))
        svg = (
            f'<g class="rows" data-tops="{tops}">\n'
            f'<g class="edges">{"".join(self._line(a, b) for a, b in sorted(self._lines))}</g>\n'
            f'<g class="labels">{"".join(map(self._label, numbers))}</g>\n'
            f'<g class="nodes">\n{"".join(map(self._box, numbers))}</g>\n</g>\n'
        )
        return Picture(svg, self._layout.width, self._end - self._begin)

    def _stack_rows(self, y: float) -> tuple[list[float], float]:
        n_labels = [0] * self._layout.n_rows
        for box, row in zip(self._boxes, self._layout.row, strict=True):
            n_labels[row] = max(n_labels[row], len(box.labels))
        top = []
        for height, count in zip(self._heights, n_labels, strict=True):
            top.append(y)
            y += height + count * _LABEL_HEIGHT + _ROW_GAP
        return top, y - _ROW_GAP if top else y  # a block may be empty

    def _find_ports(self) -> dict[tuple[int, int], float]:
        """Return where lines end, relative to the middle of their target, ordered by origin."""
        arriving: dict[int, list[int]] = defaultdict(list)
        for a, b in sorted(set(self._lines) - self._layout.far):
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

    def _line(self, a: int, b: int) -> str:
        """Return the path from the bottom of box `a`, through its bends, to the top of box `b`."""
        layout, line = self._layout, self._lines[a, b]
        far = (a, b) in layout.far
        row, x = layout.row[a], self._x[a]
        bottom = self._top[row] + self._boxes[a].height
        below_labels = 0.0 if far else len(self._boxes[a].labels) * _LABEL_HEIGHT + 2
        y = max(bottom + below_labels, self._top[row] + self._heights[row])
        path = [f"M{x:.0f} {bottom:.0f}", f"V{y:.0f}"]
        for bend_row, bend in layout.bends.get((a, b), ()):
            path.append(_curve(x, y, self._left + bend, self._top[bend_row]))
            x, y = self._left + bend, self._top[bend_row] + self._heights[bend_row]
            path.append(f"V{y:.0f}")
        to_x = self._x[b] + self._ports.get((a, b), 0.0)
        path.append(_curve(x, y, to_x, self._top[layout.row[b]]))
        title = "\n".join(dict.fromkeys(line.names))
        return (
            f'<path class="{"far edge" if far else "edge"}" data-box="{a}" '
            f'data-from="{" ".join(line.sources)}" data-to="{" ".join(line.targets)}" '
            f'd="{"".join(path)}"><title>{escape(title)}</title></path>\n'
        )

    def _label(self, number: int) -> str:
        box = self._boxes[number]
        y = self._top[self._layout.row[number]] + box.height + 11
        texts = "".join(
            f'<text x="{self._x[number]:.0f}" y="{y + index * _LABEL_HEIGHT:.0f}">'
            f"{escape(label)}</text>\n"
            for index, label in enumerate(box.labels)
        )
        return f'<g data-box="{number}">{texts}</g>' if texts else ""

    def _box(self, number: int) -> str:
        box, row = self._boxes[number], self._layout.row[number]
        x, y = self._x[number] - box.width / 2, self._top[row]
        closed = box.closed_height or box.height
        return (
            f'{box.begin} transform="translate({x:.0f} {y:.0f})" data-box="{number}" '
            f'data-row="{row}" data-heights="{box.height:.0f} {closed:.0f}"{box.end}'
        )


def _curve(x: float, y: float, to_x: float, to_y: float) -> str:
    if abs(x - to_x) < 0.5:
        return f"V{to_y:.0f}"
    half = (y + to_y) / 2
    return f"C{x:.0f} {half:.0f} {to_x:.0f} {half:.0f} {to_x:.0f} {to_y:.0f}"
