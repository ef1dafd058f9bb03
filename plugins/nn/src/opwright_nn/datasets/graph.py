"""Graph: edges between nodes, and the class of each node."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from opwright.errors import AttributeTypeError, AttributeValueError, ShapeError
from opwright_nn import arguments, checks


@arguments.suggest
class Graph(NamedTuple):
    """An undirected graph with labeled nodes; unpacks as ``edges, labels = graph``.

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
        """Create a graph from node and class numbers.

        Raises
        ------
        AttributeTypeError, ShapeError
            Edges are not pairs of ints, or labels are not ints.
        AttributeValueError
            A node of an edge has no label, or a label is negative.
        """
        pairs = _as_ints("edges", list(edges), 2)
        graph = cls(pairs, _as_ints("labels", list(labels), 1))
        graph._check_edges()
        if (graph.labels < 0).any():
            raise AttributeValueError(
                f"Graph: labels must be classes from 0, got {graph.labels.min()}; number them"
            )
        return graph

    def adjacency(self) -> npt.NDArray[np.float32]:
        """Return the matrix A, [nodes, nodes]: 1 where an edge connects two nodes, otherwise 0.

        Raises AttributeValueError if an edge connects a node that does not exist.
        """
        self._check_edges()
        matrix = np.zeros((len(self.labels), len(self.labels)), np.float32)
        matrix[self.edges[:, 0], self.edges[:, 1]] = 1
        return np.maximum(matrix, matrix.T)

    def _check_edges(self) -> None:
        n = len(self.labels)
        outside = self.edges[(self.edges < 0) | (self.edges >= n)]
        if outside.size:
            raise AttributeValueError(
                f"Graph: edges must connect nodes in [0, {n}), which have labels, got "
                f"{outside[0]}; number the nodes from 0"
            )

    def propagation(self) -> npt.NDArray[np.float32]:
        """Return ``D^(-1/2) (A + I) D^(-1/2)``, [nodes, nodes], where D has the row sums of A + I.

        This is the matrix of graph convolutions (T. Kipf, M. Welling, Semi-Supervised
        Classification with Graph Convolutional Networks, 2017).
        """
        matrix = self.adjacency() + np.eye(len(self.labels), dtype=np.float32)
        scale = 1 / np.sqrt(matrix.sum(axis=1))
        return np.asarray(scale[:, None] * matrix * scale, np.float32)


def _as_ints(name: str, values: list[Any], columns: int) -> npt.NDArray[np.int64]:
    """Return int64 [n, columns] from a list of ints, or of pairs of ints."""
    array = checks.find_array(values)
    if array is None or (len(values) and array.dtype.kind not in "biu"):
        raise AttributeTypeError(
            f"Graph: {name} must be integers, got {str(values)[:100]}; number the nodes"
        )
    if len(values) and array.reshape(len(values), -1).shape[1] != columns:
        raise ShapeError(
            f"Graph: {name} must have {columns} number(s) each, got shape {list(array.shape)}; "
            "write edges=[(0, 1)], labels=[0, 0], for example"
        )
    return array.astype(np.int64).reshape(-1, columns)
