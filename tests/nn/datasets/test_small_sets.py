"""Generated data, and the scikit-learn data sets."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

from opwright.errors import (
    AttributeTypeError,
    AttributeValueError,
    MissingRequirementError,
    ShapeError,
)
from opwright_nn.datasets import Graph, generators, karate_club, scikit


def test_two_moons_are_on_their_circles():
    points, classes = generators.two_moons(101, noise=0)
    assert (points.dtype, points.shape, classes.dtype) == (np.float32, (101, 2), np.int64)
    np.testing.assert_array_equal(np.bincount(classes[:, 0]), [51, 50])
    centers = np.where(classes == 0, [[0.0, 0.0]], [[1.0, 0.5]])
    np.testing.assert_allclose(np.linalg.norm(points - centers, axis=1), 1, rtol=1e-6)
    assert ((points[:, 1:] >= -1e-6) | (classes == 1)).all()


def test_spirals_are_rotated_copies_of_one_shape():
    points, classes = generators.spirals(300, classes=3, noise=0, turns=0.5)
    np.testing.assert_array_equal(np.bincount(classes[:, 0]), [100] * 3)
    radius = np.linalg.norm(points, axis=1)
    turns = np.arctan2(points[:, 1], points[:, 0]) / (2 * np.pi) - classes[:, 0] / 3
    difference = (turns - 0.5 * radius + 0.5) % 1 - 0.5
    np.testing.assert_allclose(difference, 0, atol=1e-6)
    np.testing.assert_allclose([radius.min(), radius.max()], [0.1, 1], rtol=1e-6)


@pytest.mark.parametrize("make", [generators.two_moons, generators.spirals])
def test_points_depend_only_on_the_seed(make):
    clean, table, again = make(50, noise=0, seed=3), make(50, seed=3), make(50, seed=3)
    np.testing.assert_array_equal(table.features, again.features)
    np.testing.assert_array_equal(table.targets, clean.targets)
    assert 0 < np.abs(table.features - clean.features).max() < 1
    assert not np.array_equal(table.targets, make(50, seed=4).targets)
    assert (np.diff(clean.targets[:, 0]) < 0).any()
    assert table.columns == ("x", "y")
    assert len(table.classes) == 2


def test_reversed_sequences_are_reversed():
    inputs, targets = generators.reversed_sequences(200, length=3, symbols=4, seed=1)
    assert (inputs.shape, inputs.dtype, targets.dtype) == ((200, 3), np.int64, np.int64)
    assert [row[::-1] for row in inputs.tolist()] == targets.tolist()
    assert set(inputs.ravel().tolist()) == {0, 1, 2, 3}
    assert targets.flags.c_contiguous
    other, _ = generators.reversed_sequences(200, length=3, symbols=4, seed=2)
    assert not np.array_equal(inputs, other)


@pytest.mark.parametrize(
    ("call", "error", "rule"),
    [
        (lambda: generators.two_moons(1), AttributeValueError, "n must be an int of at least 2"),
        (lambda: generators.two_moons(9, noise=-1), AttributeValueError, "noise must be"),
        (lambda: generators.two_moons(9, nois=1), AttributeTypeError, "did you mean 'noise'"),
        (lambda: generators.spirals(2, classes=3), AttributeValueError, "n must be .* least 3"),
        (lambda: generators.spirals(9, turns=0), AttributeValueError, "turns must be"),
        (lambda: generators.spirals(9, turns=1e308), AttributeValueError, "turns must be"),
        (
            lambda: generators.two_moons(9, noise=1e39),
            AttributeValueError,
            r"noise must .*1e\+30\]",
        ),
        (lambda: generators.shapes(9, noise=1e308), AttributeValueError, "noise must be"),
        (
            lambda: generators.shapes(9, size=7),
            AttributeValueError,
            "size must be .* least 8",
        ),
        (lambda: generators.reversed_sequences(9, symbols=1), AttributeValueError, "symbols must"),
        (lambda: scikit.load("irs"), AttributeValueError, "got 'irs'; did you mean 'iris'"),
        (lambda: scikit.load("iris", standardise=True), AttributeTypeError, "'standardize'"),
        (lambda: scikit.load("iris", test_fraction=1), AttributeValueError, "test_fraction must"),
    ],
)
def test_the_error_names_a_wrong_argument(call, error, rule):
    with pytest.raises(error, match=rule):
        call()


def test_without_scikit_learn_the_error_names_the_package_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(MissingRequirementError, match="run: pip install scikit-learn"):
        scikit.load("wine")


@pytest.fixture
def table_of_scikit_learn(monkeypatch):
    """Replace the scikit-learn wine data with a table of five rows."""
    data = np.array([[1.0, 7], [2, 7], [3, 7], [4, 7], [10, 7]])
    bunch = types.SimpleNamespace(
        data=data,
        target=np.array([0, 1, 0, 1, 1]),
        feature_names=["a", "b"],
        target_names=["n", "y"],
    )
    module = types.ModuleType("sklearn.datasets")
    module.load_wine = lambda: bunch
    package = types.ModuleType("sklearn")
    package.datasets = module
    monkeypatch.setitem(sys.modules, "sklearn", package)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", module)
    return bunch


def test_a_table_is_split_and_standardized_by_the_training_set(table_of_scikit_learn):
    bunch = table_of_scikit_learn
    raw = scikit.load("wine", seed=2, test_fraction=0.3, standardize=False)
    assert [len(part.features) for part in raw] == [3, 2]
    rows = np.concatenate([part.features[:, 0] for part in raw])
    assert sorted(rows.tolist()) == [1, 2, 3, 4, 10]
    for part in raw:
        for row, target in zip(part.features, part.targets, strict=True):
            assert bunch.target[bunch.data[:, 0].tolist().index(row[0])] == target[0]
        assert (part.columns, part.classes) == (("a", "b"), ("n", "y"))
        assert (part.features.dtype, part.targets.dtype) == (np.float32, np.int64)
    train, test = scikit.load("wine", seed=2, test_fraction=0.3)
    mean, deviation = raw[0].features[:, 0].mean(), raw[0].features[:, 0].std()
    for part, plain in zip((train, test), raw, strict=True):
        expected = (plain.features[:, 0] - mean) / deviation
        np.testing.assert_allclose(part.features[:, 0], expected, rtol=1e-5)
        assert not part.features[:, 1].any()
    assert not np.array_equal(
        scikit.load("wine", seed=1, test_fraction=0.3)[0].features, train.features
    )


@pytest.mark.parametrize(
    ("name", "rows", "columns", "n_classes"),
    [("breast_cancer", 569, 30, 2), ("diabetes", 442, 10, 0), ("iris", 150, 4, 3),
     ("wine", 178, 13, 3)],
)  # fmt: skip
def test_the_scikit_learn_tables_are_complete(name, rows, columns, n_classes):
    pytest.importorskip("sklearn.datasets")
    train, test = scikit.load(name)
    assert len(train.features) + len(test.features) == rows
    assert train.features.shape[1] == test.features.shape[1] == columns == len(train.columns)
    assert len(train.classes) == n_classes
    assert train.targets.dtype == (np.int64 if n_classes else np.float32)
    np.testing.assert_allclose(train.features.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(train.features.std(axis=0), 1, rtol=1e-4)


def test_shapes_are_drawn_within_the_image_in_two_colors():
    images, labels = generators.shapes(81, size=40, noise=0, seed=2)
    assert (images.dtype, images.shape, labels.shape) == (np.float32, (81, 3, 40, 40), (81, 1))
    np.testing.assert_array_equal(np.bincount(labels[:, 0]), [11] + [10] * 7)
    assert images.min() >= 0
    assert images.max() <= 1
    for image in images.reshape(81, 3, -1):
        colors = np.unique(image, axis=1)
        assert colors.shape == (3, 2)
        assert np.abs(colors[:, 0] - colors[:, 1]).max() >= 0.3 - 1e-6


def test_the_area_of_each_shape_matches_its_formula():
    """Areas are compared relative to the disc, since all shapes have the same mean radius."""
    images, labels = generators.shapes(1200, size=48, noise=0)
    counts = np.array([np.unique(image[0], return_counts=True)[1].min() for image in images])
    means = np.array([counts[labels[:, 0] == k].mean() for k in range(8)])
    frame, triangle = 2 - 4 * 0.4**2, 3 * np.sqrt(3) / 4
    ring = np.pi * (1 - 0.6**2)
    expected = np.array([np.pi, np.pi / 2, ring, 2, frame, triangle])
    np.testing.assert_allclose(means[:6] / means[0], expected / np.pi, rtol=0.08)


def test_shapes_depend_only_on_the_seed():
    first, again, other = (generators.shapes(20, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.images, again.images)
    np.testing.assert_array_equal(first.labels, again.labels)
    assert not np.array_equal(first.images, other.images)
    clean = generators.shapes(20, noise=0, seed=3)
    assert 0 < np.abs(first.images - clean.images).max() < 1


def test_the_karate_club_matches_the_publication():
    """Compare with the published numbers of friends, and the club that each member joined."""
    club = karate_club.load()
    matrix = club.adjacency()
    degrees = "16 9 10 6 3 4 4 4 5 2 3 1 2 5 2 2 2 2 2 3 2 2 2 5 3 3 2 4 3 4 4 6 12 17"
    assert matrix.sum(axis=0).astype(int).tolist() == [int(n) for n in degrees.split()]
    assert len(club.edges) == 78
    np.testing.assert_array_equal(matrix, matrix.T)
    assert not matrix.diagonal().any()
    assert np.trace(matrix @ matrix @ matrix) / 6 == 45  # triangles
    assert club.labels.dtype == np.int64
    assert np.flatnonzero(club.labels == 0).tolist() == [*range(9), *range(10, 14), 16, 17, 19, 21]


def test_the_propagation_matrix_of_a_graph_is_normalized():
    graph = Graph.of([(0, 1), (2, 1)], [0, 1, 0])
    expected = [[1 / 2, 6**-0.5, 0], [6**-0.5, 1 / 3, 6**-0.5], [0, 6**-0.5, 1 / 2]]
    np.testing.assert_allclose(graph.propagation(), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("edges", "labels", "error", "text"),
    [
        ([(0, -1)], [0, 1], AttributeValueError, r"edges must connect nodes in \[0, 2\).* got -1"),
        ([(0, 2)], [0, 1], AttributeValueError, r"edges must connect nodes in \[0, 2\).* got 2"),
        ([(0, 0.5)], [0, 1], AttributeTypeError, "edges must be integers, got"),
        ([(0, 1), (1,)], [0, 1], AttributeTypeError, "edges must be integers, got"),
        ([(0, 1, 0), (1, 0, 1)], [0, 1], ShapeError, r"edges must have 2 .* got shape \[2, 3\]"),
        ([], [0, 1.5], AttributeTypeError, "labels must be integers, got"),
        ([], [0, np.nan], AttributeTypeError, "labels must be integers, got"),
        ([], [0, -1], AttributeValueError, "labels must be classes from 0, got -1"),
        ([], [[0, 1]], ShapeError, r"labels must have 1 .* got shape \[1, 2\]"),
    ],
)
def test_a_graph_with_invalid_edges_or_labels_is_refused(edges, labels, error, text):
    with pytest.raises(error, match=f"^Graph: {text}"):
        Graph.of(edges, labels)


def test_a_graph_built_from_arrays_is_checked_when_it_is_used():
    graph = Graph(np.array([[0, -1]]), np.array([[0], [1]]))
    for method in (graph.adjacency, graph.propagation):
        with pytest.raises(AttributeValueError, match=r"nodes in \[0, 2\).* got -1"):
            method()


def test_a_graph_can_be_empty():
    np.testing.assert_array_equal(Graph.of([], [0, 1]).propagation(), np.eye(2))
    assert Graph.of([], []).propagation().shape == (0, 0)


def test_generated_data_are_finite_for_very_large_noise_and_turns():
    for table in (generators.two_moons(99, noise=1e30), generators.spirals(99, 3, 1e30, turns=1e6)):
        assert np.isfinite(table.features).all()
    assert np.isfinite(generators.shapes(9, noise=1e30).images).all()
