"""In the layered layout, edges go down, nodes in a row do not touch, and chains are straight."""

from __future__ import annotations

import itertools
import random

import pytest

from opwright_kit.drawing.layers import MAX_ROW, MAX_SPAN, lay_out

WIDTH, GAP = 100.0, 10.0


def _random_edges(n, seed):
    draw = random.Random(seed)
    return [(draw.randrange(b), b) for b in range(1, n) for _ in range(draw.randrange(3))]


@pytest.mark.parametrize("seed", range(6))
def test_edges_go_down_and_nodes_in_a_row_do_not_overlap(seed):
    edges = _random_edges(60, seed)
    layout = lay_out([WIDTH] * 60, edges, GAP)
    assert all(layout.row[a] < layout.row[b] for a, b in edges)
    for row in range(layout.n_rows):
        places = sorted(x for x, of in zip(layout.x, layout.row, strict=True) if of == row)
        assert all(b - a >= WIDTH + GAP - 1e-6 for a, b in itertools.pairwise(places))
        assert len(places) <= MAX_ROW
    assert all(WIDTH / 2 - 1e-6 <= x <= layout.width - WIDTH / 2 + 1e-6 for x in layout.x)


@pytest.mark.parametrize("seed", range(6))
def test_long_edges_bend_in_each_row_unless_they_exceed_the_maximum_span(seed):
    edges = set(_random_edges(60, seed))
    layout = lay_out([WIDTH] * 60, sorted(edges), GAP)
    for a, b in edges:
        between = range(layout.row[a] + 1, layout.row[b])
        assert ((a, b) in layout.far) == (len(between) + 1 > MAX_SPAN)
        if (a, b) not in layout.far:
            assert [row for row, _ in layout.bends.get((a, b), ())] == list(between)


def test_a_chain_is_a_straight_line():
    layout = lay_out([WIDTH] * 50, [(i, i + 1) for i in range(49)], GAP)
    assert layout.row == list(range(50))
    assert max(layout.x) - min(layout.x) < 1e-6


def test_a_chain_with_leaves_stays_straight():
    chain = [(2 * i, 2 * i + 2) for i in range(20)]
    leaves = [(2 * i, 2 * i + 1) for i in range(20)]
    layout = lay_out([WIDTH] * (41), chain + leaves, GAP)
    trunk = [layout.x[2 * i] for i in range(21)]
    assert max(trunk) - min(trunk) < WIDTH


def _residual_training(n_blocks):
    """Return a graph of residual blocks, a gradient of each node, and two updates per gradient."""
    edges, last, forward = [], 0, [0]
    for _ in range(n_blocks):
        first = last
        for _ in range(4):
            edges.append((last, len(forward)))
            last = len(forward)
            forward.append(last)
        edges.append((first, last))
    n = len(forward)
    grad = {last: n}
    n += 1
    edges.append((last, grad[last]))
    for node in reversed(forward[:-1]):
        grad[node] = n
        edges += [(grad[b], n) for a, b in edges if a == node and b in grad]
        edges += [(n, n + 1), (n, n + 2)]
        n += 3
    return n, sorted(edges), [*forward, *(grad[node] for node in reversed(forward))]


def test_a_network_of_any_depth_and_its_gradient_form_one_column():
    widths = set()
    for n_blocks in (2, 20):
        n, edges, trunk = _residual_training(n_blocks)
        layout = lay_out([WIDTH] * (n), edges, GAP)
        assert max(layout.x[node] for node in trunk) == min(layout.x[node] for node in trunk)
        widths.add(round(layout.width))
    assert len(widths) == 1


def test_the_line_of_a_skip_connection_runs_around_the_skipped_nodes():
    edges = [(i, i + 1) for i in range(20)] + [(4, 9), (12, 17)]
    layout = lay_out([WIDTH] * (21), edges, GAP)
    assert len(set(layout.x)) == 1
    for edge in ((4, 9), (12, 17)):
        (bend,) = {x for _, x in layout.bends[edge]}
        assert WIDTH / 2 < abs(bend - layout.x[0]) < WIDTH


def test_a_node_without_predecessors_is_placed_above_its_first_reader():
    # The chain 0 -> 1 -> 2 -> 4, and 3 -> 4, where 3 has no predecessor.
    layout = lay_out([WIDTH] * (5), [(0, 1), (1, 2), (2, 4), (3, 4)], GAP)
    assert layout.row[3] == layout.row[4] - 1


def test_many_unordered_nodes_are_placed_in_several_rows():
    layout = lay_out([WIDTH] * (3 * MAX_ROW + 1), [], GAP)
    assert layout.n_rows == 4


def test_an_empty_graph_has_zero_width():
    assert lay_out([WIDTH] * (0), [], GAP).width == 0


def test_wide_nodes_push_their_neighbors_aside():
    layout = lay_out([WIDTH, 3 * WIDTH, WIDTH], [], GAP)
    first, second, third = sorted(zip(layout.x, (1, 3, 1), strict=True))
    assert second[0] - first[0] >= (first[1] + second[1]) / 2 * WIDTH + GAP - 1e-6
    assert third[0] - second[0] >= (second[1] + third[1]) / 2 * WIDTH + GAP - 1e-6
    assert layout.width >= 5 * WIDTH + 2 * GAP - 1e-6
