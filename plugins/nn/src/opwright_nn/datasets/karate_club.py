"""Zachary's karate club: 34 members, 78 friendships, and the two clubs into which it split.

Source: W. W. Zachary, An Information Flow Model for Conflict and Fission in Small Groups, Journal
of Anthropological Research 33, 1977, pp. 452-473: the matrix of ties, and the club that each member
joined. Members are numbered from 0; the instructor is 0, the administrator is 33.
"""

from __future__ import annotations

from opwright_nn import arguments
from opwright_nn.datasets.graph import Graph

__all__ = ["load"]

_FRIENDS = {
    0: (1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 17, 19, 21, 31),
    1: (2, 3, 7, 13, 17, 19, 21, 30),
    2: (3, 7, 8, 9, 13, 27, 28, 32),
    3: (7, 12, 13),
    4: (6, 10),
    5: (6, 10, 16),
    6: (16,),
    8: (30, 32, 33),
    9: (33,),
    13: (33,),
    14: (32, 33),
    15: (32, 33),
    18: (32, 33),
    19: (33,),
    20: (32, 33),
    22: (32, 33),
    23: (25, 27, 29, 32, 33),
    24: (25, 27, 31),
    25: (31,),
    26: (29, 33),
    27: (33,),
    28: (31, 33),
    29: (32, 33),
    30: (32, 33),
    31: (32, 33),
    32: (33,),
}
"""The friends of each member that have a higher number."""

_INSTRUCTORS = {0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 16, 17, 19, 21}
_N_MEMBERS = 34


@arguments.suggest
def load() -> Graph:
    """Return the members, their friendships, and which club each joined.

    Returns
    -------
    Graph
        78 edges of 34 nodes; label 0 is the instructor's club, label 1 the administrator's.
    """
    edges = [(member, friend) for member, friends in _FRIENDS.items() for friend in friends]
    return Graph.of(edges, [member not in _INSTRUCTORS for member in range(_N_MEMBERS)])
