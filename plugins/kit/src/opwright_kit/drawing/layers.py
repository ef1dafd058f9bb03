"""Layered layout: nodes in rows from top to bottom, edges that go down between them.

After Sugiyama, Tagawa and Toda, "Methods for visual understanding of hierarchical system
structures", 1981: rows by the longest path, the order within a row by the mean position of the
neighbors, and columns for edges that continue downwards.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from opwright_kit.drawing.columns import Places, assign_columns

MAX_SPAN: Final = 8
"""Rows that a line may cross; the skip of a residual block crosses five or six."""

MAX_ROW: Final = 6
"""Nodes in a row; more nodes without a required order are divided into several rows."""

_SWEEPS: Final = 4
_BEND_WIDTH: Final = 26.0


@dataclass(slots=True)
class Layout:
    """The positions of the nodes.

    Attributes
    ----------
    row : list of int
        Row of each node, from the top.
    x : list of float
        Middle of each node.
    n_rows : int
    bends : dict of (int, int) to list of (int, float)
        For an edge of more than one row: row and x of each place that it passes.
    far : set of (int, int)
        Edges that are too long to be drawn.
    width : float
        The total width; every x is at least the half width of its node, and at most this width.
    """

    row: list[int]
    x: list[float]
    n_rows: int
    bends: dict[tuple[int, int], list[tuple[int, float]]]
    far: set[tuple[int, int]]
    width: float


@dataclass(slots=True)
class _Slots:
    """The members of the rows: nodes, and bends of edges."""

    row: list[int]
    width: list[float]
    above: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    below: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    rows: list[list[int]] = field(default_factory=list)


def lay_out(widths: Sequence[float], edges: Sequence[tuple[int, int]], gap: float) -> Layout:
    """Return the positions of the nodes.

    Parameters
    ----------
    widths : sequence of float
        The widths of the nodes.
    edges : sequence of (int, int)
        Pairs of nodes, from a lower to a higher number; the numbers are a topological order.
    gap : float
        The smallest space between two nodes.
    """
    n = len(widths)
    edges = sorted(set(edges))
    row = _break_rows(_rows(n, edges))
    slots = _Slots(row, list(widths))
    far = {(a, b) for a, b in edges if row[b] - row[a] > MAX_SPAN}
    chains = {edge: _chain(slots, *edge) for edge in edges if edge not in far}
    slots.rows = [[] for _ in range(max(row, default=-1) + 1)]
    for slot, of in enumerate(slots.row):
        slots.rows[of].append(slot)
    _order(slots)
    middle = assign_columns(Places(slots.rows, slots.above, slots.below, slots.width, n), gap)
    least = min((x - w / 2 for x, w in zip(middle, slots.width, strict=True)), default=0.0)
    most = max((x + w / 2 for x, w in zip(middle, slots.width, strict=True)), default=0.0)
    x = [value - least for value in middle]
    bends = {edge: [(slots.row[s], x[s]) for s in chain] for edge, chain in chains.items() if chain}
    return Layout(slots.row[:n], x[:n], len(slots.rows), bends, far, most - least)


def _rows(n: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the length of the longest path to each node.

    A node without predecessors is directly above its first reader.
    """
    row = [0] * n
    has_above = [False] * n
    readers: dict[int, list[int]] = defaultdict(list)
    for a, b in sorted(edges, key=lambda edge: edge[1]):
        row[b] = max(row[b], row[a] + 1)
        has_above[b] = True
        readers[a].append(b)
    for node in range(n - 1, -1, -1):
        if not has_above[node] and readers[node]:
            row[node] = min(row[reader] for reader in readers[node]) - 1
    return row


def _break_rows(row: Sequence[int]) -> list[int]:
    """Return rows of at most MAX_ROW nodes, in the same order."""
    members: dict[int, list[int]] = defaultdict(list)
    for node, of in enumerate(row):
        members[of].append(node)
    broken = [0] * len(row)
    next_row = 0
    for of in sorted(members):
        for begin in range(0, len(members[of]), MAX_ROW):
            for node in members[of][begin : begin + MAX_ROW]:
                broken[node] = next_row
            next_row += 1
    return broken


def _chain(slots: _Slots, a: int, b: int) -> list[int]:
    """Insert bends into the rows that an edge crosses, connect them, and return them."""
    chain = []
    before = a
    for row in range(slots.row[a] + 1, slots.row[b]):
        bend = len(slots.row)
        slots.row.append(row)
        slots.width.append(_BEND_WIDTH)
        chain.append(bend)
        slots.above[bend].append(before)
        slots.below[before].append(bend)
        before = bend
    slots.above[b].append(before)
    slots.below[before].append(b)
    return chain


def _order(slots: _Slots) -> None:
    """Sort each row by the mean position of the neighbors, alternately downwards and upwards."""
    place = [0.0] * len(slots.row)
    for members in slots.rows:
        for index, slot in enumerate(members):
            place[slot] = index / max(len(members), 1)
    for sweep in range(_SWEEPS):
        near, rows = (
            (slots.above, slots.rows) if sweep % 2 == 0 else (slots.below, slots.rows[::-1])
        )
        for members in rows:
            mean = {s: _mean([place[o] for o in near[s]], place[s]) for s in members}
            members.sort(key=lambda slot: (mean[slot], place[slot]))
            for index, slot in enumerate(members):
                place[slot] = (index + 0.5) / len(members)


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
