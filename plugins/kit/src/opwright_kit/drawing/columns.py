"""Computes x coordinates in a layered layout; lines that continue downwards share a column.

After Brandes and Köpf, "Fast and simple horizontal coordinate assignment", 2001: places of
neighboring rows are aligned to blocks that do not cross, and blocks are packed. Here the longest
path determines the alignment, so the trunk of a network and of its gradient is one straight
column, and branches give way.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_BEND_LENGTH: Final = 0.1
"""The length of a bend, in nodes; below 1, so that a path with more nodes counts as longer."""

_SWEEPS: Final = 8


@dataclass(slots=True)
class Places:
    """The nodes and edge bends in each row.

    Attributes
    ----------
    rows : list of list of int
        The places of each row, from the left.
    above, below : mapping of int to list of int
        The neighbors of each in the adjacent rows.
    width : list of float
    n_nodes : int
        The first `n_nodes` entries are nodes, the rest are bends.
    """

    rows: list[list[int]]
    above: Mapping[int, Sequence[int]]
    below: Mapping[int, Sequence[int]]
    width: list[float]
    n_nodes: int


def assign_columns(places: Places, gap: float) -> list[float]:
    """Return the center x of each place, as compact as blocks and the `gap` between them allow."""
    block = _blocks(places)
    right_of = _find_neighbors(places, block, gap)
    left_of: dict[int, dict[int, float]] = {b: {} for b in right_of}
    for a, others in right_of.items():
        for b, distance in others.items():
            left_of[b][a] = distance
    order = _order(right_of, left_of)
    x = _pack(order, right_of, left_of)
    pulls = _find_pulls(places, block)
    for sweep in range(_SWEEPS):
        for b in order if sweep % 2 else order[::-1]:
            _move(b, x, pulls[b], right_of[b], left_of[b])
    return [x[b] for b in block]


def _blocks(places: Places) -> list[int]:
    """Return the block of each place; edges on the longest paths are aligned first."""
    lengths = _lengths(places)
    position = {s: i for row in places.rows for i, s in enumerate(row)}
    edges = [(a, b) for row in places.rows for a in row for b in places.below[a]]
    # Among equally long paths the later path comes first, since the network continues with it.
    edges.sort(key=lambda edge: (lengths[0][edge[0]] + lengths[1][edge[1]], edge), reverse=True)
    row_of = {s: number for number, row in enumerate(places.rows) for s in row}
    aligned: dict[int, list[tuple[int, int]]] = defaultdict(list)
    next_below: dict[int, int] = {}
    taken: set[int] = set()
    for a, b in edges:
        if a in next_below or b in taken:
            continue
        pairs = aligned[row_of[a]]
        pair = (position[a], position[b])
        at = bisect(pairs, pair)
        if (at and pairs[at - 1][1] > pair[1]) or (at < len(pairs) and pairs[at][1] < pair[1]):
            continue  # it would cross a longer one
        pairs.insert(at, pair)
        next_below[a] = b
        taken.add(b)
    block = list(range(len(places.width)))
    for row in places.rows:
        for a in row:
            if a in next_below:
                block[next_below[a]] = block[a]
    return block


def _lengths(places: Places) -> tuple[list[float], list[float]]:
    """Return the lengths, in nodes, of the longest paths to each place and from it downwards."""
    own = [1.0 if s < places.n_nodes else _BEND_LENGTH for s in range(len(places.width))]
    down, up = list(own), list(own)
    for row in places.rows:
        for s in row:
            down[s] = own[s] + max((down[o] for o in places.above[s]), default=0.0)
    for row in reversed(places.rows):
        for s in row:
            up[s] = own[s] + max((up[o] for o in places.below[s]), default=0.0)
    return down, up


def _find_neighbors(
    places: Places, block: Sequence[int], gap: float
) -> dict[int, dict[int, float]]:
    """Return the neighbors of each block in any row, with the minimum distance to each."""
    found: dict[int, dict[int, float]] = {b: {} for b in block}
    for row in places.rows:
        for a, b in itertools.pairwise(row):
            distance = (places.width[a] + places.width[b]) / 2 + gap
            others = found[block[a]]
            others[block[b]] = max(distance, others.get(block[b], 0.0))
    return found


def _order(
    right_of: Mapping[int, Mapping[int, float]], left_of: Mapping[int, Mapping[int, float]]
) -> list[int]:
    """Return the blocks, ordered so that each comes after all blocks to its left."""
    missing = {b: len(others) for b, others in left_of.items()}
    order = [b for b, count in missing.items() if not count]
    for b in order:  # the list grows in this loop
        for other in right_of[b]:
            missing[other] -= 1
            if not missing[other]:
                order.append(other)
    return order


def _pack(
    order: Sequence[int],
    right_of: Mapping[int, Mapping[int, float]],
    left_of: Mapping[int, Mapping[int, float]],
) -> dict[int, float]:
    """Return the mean of the left-packed and the right-packed position in the same width."""
    left: dict[int, float] = {}
    for b in order:
        left[b] = max((left[a] + d for a, d in left_of[b].items()), default=0.0)
    most = max(left.values(), default=0.0)
    right: dict[int, float] = {}
    for b in reversed(order):
        right[b] = min((right[o] - d for o, d in right_of[b].items()), default=most)
    return {b: (left[b] + right[b]) / 2 for b in order}


def _find_pulls(places: Places, block: Sequence[int]) -> dict[int, list[int]]:
    """Return the blocks to which each block is connected, with one entry for each line."""
    found: dict[int, list[int]] = {b: [] for b in block}
    for row in places.rows:
        for a in row:
            for b in places.below[a]:
                if block[a] != block[b]:
                    found[block[a]].append(block[b])
                    found[block[b]].append(block[a])
    return found


def _move(
    b: int,
    x: dict[int, float],
    pulls: Sequence[int],
    right_of: Mapping[int, float],
    left_of: Mapping[int, float],
) -> None:
    """Place a block as near to the median of its connections as its neighbors allow."""
    if not pulls:
        return
    listed = sorted(x[other] for other in pulls)
    middle = (listed[(len(listed) - 1) // 2] + listed[len(listed) // 2]) / 2
    least = max((x[a] + d for a, d in left_of.items()), default=-math.inf)
    most = min((x[o] - d for o, d in right_of.items()), default=math.inf)
    x[b] = min(max(middle, least), most)
