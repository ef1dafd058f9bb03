"""Graph: edges between nodes, and the class of each node."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from opwright_nn import arguments


@arguments.suggest
class Graph(NamedTuple):
    """Nodes that edges without a direction connect; unpacks as ``edges, labels = graph``.

    Attributes
    ----------
    edges : ndarray of int64, [edges, 2]
        The two nodes of each edge, numbered from 0.
    labels : ndarray of int64, [nodes, 1]
        The class of each node.
    """

    edges: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int64]

    @classmethod
    def of(cls, edges: Iterable[tuple[int, int]], labels: Iterable[int]) -> Graph:
        """Make a graph of numbers."""
        pairs = np.array(list(edges), np.int64).reshape(-1, 2)
        return cls(pairs, np.array(list(labels), np.int64).reshape(-1, 1))

    def adjacency(self) -> npt.NDArray[np.float32]:
        """Return the matrix A, [nodes, nodes]: 1 where an edge connects two nodes, else 0."""
        matrix = np.zeros((len(self.labels), len(self.labels)), np.float32)
        matrix[self.edges[:, 0], self.edges[:, 1]] = 1
        return np.maximum(matrix, matrix.T)

    def propagation(self) -> npt.NDArray[np.float32]:
        """Return ``D^(-1/2) (A + I) D^(-1/2)``, [nodes, nodes], where D has the row sums of A + I.

        The matrix of graph convolutions (T. Kipf, M. Welling, Semi-Supervised Classification with
        Graph Convolutional Networks, 2017).
        """
        matrix = self.adjacency() + np.eye(len(self.labels), dtype=np.float32)
        scale = 1 / np.sqrt(matrix.sum(axis=1))
        return np.asarray(scale[:, None] * matrix * scale, np.float32)
