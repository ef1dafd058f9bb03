"""Finds the cheapest values to save so that all wanted values can be recomputed from them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

Node = TypeVar("Node")

_END: Final = "end"

Capacities = dict[Any, dict[Any, float]]
"""The residual capacity of each edge. Every edge has its reverse."""


def least_separation(
    wanted: Iterable[Node],
    sources_of: Callable[[Node], list[Node] | None],
    size_of: Callable[[Node], int],
) -> dict[Node, None]:
    """Return the values of least total size to save so that all wanted values can be computed.

    `sources_of` returns the values from which a value is computed, an empty sequence if the value
    always exists, or None if it can only be saved. The result is a minimum cut of the flow from the
    values that can only be saved to the wanted values (Ford and Fulkerson 1956). If there are
    several minimum cuts, the cut with the least recomputation is returned.
    """
    wanted = list(wanted)
    saved = {value: None for value in wanted if sources_of(value) is None}
    capacities: Capacities = defaultdict(lambda: defaultdict(float))

    def connect(a: Any, b: Any, capacity: float) -> None:
        capacities[a][b] = capacity
        capacities[b][a] += 0

    origins: list[Any] = []
    seen: dict[Node, None] = {}
    pending = [value for value in wanted if value not in saved]
    for value in pending:
        connect((value, 1), _END, math.inf)
    while pending:
        value = pending.pop()
        if value in seen or value in saved:
            continue
        seen[value] = None
        connect((value, 0), (value, 1), max(size_of(value), 1))
        sources = sources_of(value)
        origins += [(value, 0)] if sources is None else ()
        for source in sources or ():
            if source not in saved:
                connect((source, 1), (value, 0), math.inf)
                pending.append(source)
    for origin in origins:  # one by one, as an exhausted origin never gets a new path
        while path := _find_path(capacities, origin):
            least = min(capacities[a][b] for a, b in path)
            for a, b in path:
                capacities[a][b] -= least
                capacities[b][a] += least
    late = _reaching_end(capacities)
    saved.update((value, None) for value in seen if (value, 1) in late and (value, 0) not in late)
    return saved


def _find_path(capacities: Capacities, origin: Any) -> list[tuple[Any, Any]]:
    """Return the edges of a shortest augmenting path; empty if there is none."""
    before: dict[Any, Any] = {origin: None}
    queue = [origin]
    for node in queue:
        for following, capacity in capacities[node].items():
            if capacity > 0 and following not in before:
                before[following] = node
                queue.append(following)
    path: list[tuple[Any, Any]] = []
    node = _END
    while before.get(node) is not None:
        path.append((before[node], node))
        node = before[node]
    return path


def _reaching_end(capacities: Capacities) -> set[Any]:
    """Return the nodes with residual capacity to the sink."""
    late: set[Any] = {_END}
    queue: list[Any] = [_END]
    for node in queue:
        for before in capacities[node]:
            if before not in late and capacities[before][node] > 0:
                late.add(before)
                queue.append(before)
    return late
